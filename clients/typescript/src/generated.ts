// Made of docs/openapi.json by `npm run generate`.

export interface paths {
    "/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The page */
        get: operations["getPage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/ag-ui": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Runs the agent on the newest message of a conversation (AG-UI) */
        post: operations["agUiRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/agents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The agents that are configured */
        get: operations["listAgents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/approvals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Tools that ask */
        get: operations["listApprovals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/approvals/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Answers one */
        post: operations["decideApproval"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The page's cookie for the token */
        post: operations["login"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Removes the page's cookie */
        post: operations["logout"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/message": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sends a message; to a busy session it waits */
        post: operations["sendMessage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/message/queue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The messages that wait */
        get: operations["listQueue"];
        put?: never;
        post?: never;
        /** Removes all messages that wait */
        delete: operations["clearQueue"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/message/queue/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Removes a message that waits */
        delete: operations["removeQueued"];
        options?: never;
        head?: never;
        /** Changes a message that waits */
        patch: operations["editQueued"];
        trace?: never;
    };
    "/api/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Which model answers, and which servers are here */
        get: operations["listModels"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/render": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Markdown as markup that is safe to show */
        post: operations["renderMarkdown"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/search": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Which sessions speak of something, the newest first */
        get: operations["search"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The sessions, the most recently changed first */
        get: operations["listSessions"];
        put?: never;
        /** Makes a session */
        post: operations["createSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One session */
        get: operations["getSession"];
        put?: never;
        post?: never;
        /** Deletes a session for good */
        delete: operations["deleteSession"];
        options?: never;
        head?: never;
        /** Renames a session */
        patch: operations["renameSession"];
        trace?: never;
    };
    "/api/sessions/{id}/blobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stores content */
        post: operations["uploadBlob"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/blobs/{hash}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The bytes of what the log names */
        get: operations["readBlob"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stops what goes on */
        post: operations["cancelRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/compact": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Makes room now, or says how */
        post: operations["compact"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/compactions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Compactions and prunes */
        get: operations["listCompactions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/compactions/{edit}/release": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What an undo brought back may be compacted again */
        post: operations["releaseCompaction"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/compactions/{edit}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The model sees the original again */
        post: operations["undoCompaction"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/context": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What fills the window */
        get: operations["getContext"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What happens, as it happens (server-sent events) */
        get: operations["watchEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A session as a file */
        get: operations["exportSession"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A new session that shares the log up to a position */
        post: operations["forkSession"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/llm": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Gives a session another agent or model; its history stays */
        post: operations["switchModel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Everything that was said, page by page */
        get: operations["listMessages"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/orders": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The standing orders, the oldest first */
        get: operations["listOrders"];
        put?: never;
        /** Pins a standing order: the model is shown it whole from its next step on */
        post: operations["pinOrder"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/orders/{order}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Removes a standing order; the log keeps it */
        delete: operations["removeOrder"];
        options?: never;
        head?: never;
        /** Gives a standing order another text */
        patch: operations["editOrder"];
        trace?: never;
    };
    "/api/sessions/{id}/recall": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The exact original, or what matches */
        get: operations["recall"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Goes on */
        post: operations["resumeRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/sessions/{id}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Asks the model's server again at once
         * @description Only where the session waits for it (`waiting_for_server`); else nothing happens.
         */
        post: operations["retryNow"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The settings that hold, and where they come from */
        get: operations["getSettings"];
        /** Changes settings, for every session from its next decision on */
        put: operations["changeSettings"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/ui/chat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sends the newest message of a chat and streams its answer (AI SDK UI message stream) */
        post: operations["uiChat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/ui/chat/{id}/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Streams the answer that is on its way in a chat, from its beginning */
        get: operations["uiChatStream"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the server lives */
        get: operations["getHealth"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Figures in the text format of Prometheus */
        get: operations["getMetrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/open/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The opening link: to the page, with its cookie */
        get: operations["openPage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This description */
        get: operations["getOpenapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the server can work */
        get: operations["getReadiness"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/web/{path}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A file of the page */
        get: operations["getPageFile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        AgentBrief: {
            /** @description Whether sessions have it that ask for none. */
            isDefault: boolean;
            /** @description The model it is configured with. */
            model: string;
            name: string;
            usable: boolean;
            /** @description Why it cannot be used. */
            why?: string;
        };
        Agents: {
            /** @description The usual one first. */
            agents: components["schemas"]["AgentBrief"][];
        };
        /** @description An event of the stream. */
        AgUiEvent: {
            type: string;
        };
        /** @description What a client posts: `RunAgentInput`. Other fields are passed over. */
        AgUiInput: {
            /** @description `agent`: for a new conversation, a configured agent by name. */
            forwardedProps?: Record<string, never> | null;
            /** @description The newest one counts. */
            messages: components["schemas"]["AgUiMessage"][];
            /** @description Answers to questions that ended a run. */
            resume?: components["schemas"]["AgUiResume"][];
            /** @description The client's name for the run. */
            runId: string;
            /** @description The client's state; `longhaul` in it is ours. */
            state?: Record<string, never> | null;
            /** @description The conversation: a session's id, or any name of up to 500 characters. */
            threadId: string;
        };
        AgUiMessage: {
            /** @description A text, or a list of parts. */
            content?: Record<string, never>;
            id?: string;
            metadata?: components["schemas"]["MessageMetadata"] | null;
            role: string;
        };
        AgUiResume: {
            interruptId: string;
            /** @description `{approved, reason?}`. */
            payload?: Record<string, never> | null;
            /** @description `resolved`, or `cancelled`, which denies. */
            status: string;
        };
        AllowedName: {
            label: string;
            value: string;
        };
        /** @description A tool that asks. */
        Approval: {
            /** @description On the whole server. */
            approvalId: string;
            /** @description The arguments; `null` if what the model wrote is no JSON. */
            args: unknown;
            /** @description The arguments as the model wrote them. */
            argsText: string;
            callId: string;
            sessionId: string;
            toolName: string;
        };
        ApprovalAnswer: {
            decision: components["schemas"]["Decision"];
            reason?: string | null;
            sessionId?: string | null;
        };
        ApprovalDecided: {
            approvalId: string;
            decision: components["schemas"]["Decided"];
            ok: boolean;
            sessionId: string;
        };
        Approvals: {
            approvals: components["schemas"]["Approval"][];
        };
        /** @description A server of models on this machine that answers. */
        Backend: {
            /** @description Where its API begins. */
            baseUrl: string;
            /** @description Its models, as it lists them. */
            models: string[];
            /** @description Whose it probably is, for example `Ollama`. */
            name: string;
        };
        Basis: {
            /** Format: double */
            lastErrorPercent: number | null;
            /** Format: int64 */
            lastInputTokens: number | null;
            /** Format: int64 */
            lastOutputTokens: number | null;
            /** Format: int64 */
            newMessagesEstimate: number;
        };
        /** @description The name of stored content. */
        BlobRef: {
            /** Format: int64 */
            bytes: number;
            /** @description BLAKE3, 64 hexadecimal digits. */
            hash: string;
        };
        /** @enum {string} */
        CallStatus: "pending" | "running" | "completed" | "error" | "cancelled" | "interrupted";
        Cancelled: {
            cancelled: boolean;
            ok: boolean;
            persisted: components["schemas"]["Persisted"] | null;
        };
        CancelRun: {
            clearQueue?: boolean;
        };
        /** @description What a compaction did, or would do. */
        Compacted: components["schemas"]["CompactionMade"] | components["schemas"]["CompactionNotMade"] | components["schemas"]["CompactionPlanned"];
        /** @description An edit of the view. */
        Compaction: {
            active: boolean;
            /** Format: int64 */
            compressedMessages: number;
            /** Format: int64 */
            compressedTokens: number;
            handles: string[];
            id: string;
            kind: components["schemas"]["EditKind"];
            /** Format: int64 */
            originalMessages: number;
            /** Format: int64 */
            originalTokens: number;
            reason: components["schemas"]["EditReason"];
            released: boolean;
            /** Format: int64 */
            seq: number;
            strategy: string;
            survival?: components["schemas"]["Survival"];
            /** Format: int64 */
            trigger: number | null;
            undo: components["schemas"]["UndoNow"];
            why: string;
        };
        CompactionMade: {
            /** @enum {boolean} */
            compacted: true;
            compaction: components["schemas"]["Compaction"];
            ok: boolean;
        };
        CompactionNotMade: {
            /** @enum {boolean} */
            compacted: false;
            ok: boolean;
            reason: string;
        };
        /** @description What a compaction would do. */
        CompactionPlan: {
            action: components["schemas"]["PlannedAction"];
            /** Format: int64 */
            clearedResults?: number;
            /** Format: int64 */
            compressedMessages?: number;
            /** Format: int64 */
            compressedTokens?: number;
            /** Format: int64 */
            floorTokens?: number;
            handles?: string[];
            kind?: components["schemas"]["EditKind"];
            /** Format: int64 */
            messages?: number;
            /** Format: int64 */
            originalMessages?: number;
            /** Format: int64 */
            originalTokens?: number;
            strategy?: string;
            /** Format: int64 */
            summaryTokens?: number;
            survival?: components["schemas"]["Survival"];
            survivalWithoutSummary?: boolean;
            why?: string;
        };
        CompactionPlanned: {
            /** @enum {boolean} */
            dryRun: true;
            ok: boolean;
            plan: components["schemas"]["CompactionPlan"];
        };
        Compactions: {
            compactions: components["schemas"]["Compaction"][];
        };
        CompactRequest: {
            dryRun?: boolean;
            /** @description What is to be kept, in words. */
            instructions?: string | null;
            strategy?: string | null;
        };
        /** @description A message's content: a text, or a list of parts. */
        Content: string | components["schemas"]["GivenPart"][];
        /** @description How full the window is, what fills it, and on what the figures rest. Tokens throughout. */
        Context: {
            basis: components["schemas"]["Basis"];
            /**
             * Format: int64
             * @description Messages shown as summaries or notes.
             */
            compacted: number;
            /** Format: int64 */
            compactionCount: number;
            counter: string;
            /** Format: int64 */
            deferredTools: number;
            /**
             * Format: double
             * @description As a share.
             */
            expectedError: number;
            /** Format: int64 */
            framing: number;
            /** Format: int64 */
            freeSpace: number;
            messages: components["schemas"]["MessageShare"];
            /** Format: int64 */
            outputReserve: number;
            /** Format: double */
            percent: number;
            /**
             * Format: int64
             * @description Tool results shown as placeholders.
             */
            pruned: number;
            source: string;
            /** Format: int64 */
            systemPrompt: number;
            thresholds: components["schemas"]["Threshold"][];
            tokenUsage: components["schemas"]["TokenUsage"];
            tools: components["schemas"]["ToolShare"][];
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            window: number;
            windowSource: string;
        };
        ContextCompactFailed: {
            code: components["schemas"]["ProblemCode"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "context:compact-failed";
            reason: string;
            runId?: string;
            seq: number;
            sessionId: string;
            strategy: string;
        };
        ContextCompacting: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "context:compacting";
            reason: components["schemas"]["EditReason"];
            runId?: string;
            sessionId: string;
            strategy: string;
            /** Format: int64 */
            trigger: number | null;
        };
        ContextCompressed: {
            compactionId: string;
            /** Format: int64 */
            compressedMessages: number;
            /** Format: int64 */
            compressedTokens: number;
            costNote: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "context:compressed";
            /** Format: int64 */
            originalMessages: number;
            /** Format: int64 */
            originalTokens: number;
            reason: components["schemas"]["EditReason"];
            runId?: string;
            seq: number;
            sessionId: string;
            strategy: string;
            /** @description How the check of the model's answers ended, if a model was asked for a summary. */
            summary?: components["schemas"]["SummaryCheck"];
            survival: components["schemas"]["Survival"] | null;
            /** Format: int64 */
            trigger: number | null;
        };
        ContextEstimate: {
            /** Format: int64 */
            actual: number;
            /** Format: double */
            errorPercent: number;
            /** Format: int64 */
            estimated: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "context:estimate";
            runId?: string;
            seq: number;
            sessionId: string;
        };
        ContextOmitted: {
            /** @description By this name it is undone. */
            compactionId: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "context:omitted";
            parts: components["schemas"]["OmittedPart"][];
            /** @description The words of the model's server. */
            reason: string;
            runId?: string;
            seq: number;
            sessionId: string;
        };
        ContextPruned: {
            compactionId: string;
            /** Format: int64 */
            compressedTokens: number;
            /** @description What was done, and why there. */
            costNote: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "context:pruned";
            /** Format: int64 */
            originalTokens: number;
            /** Format: int64 */
            prunedCount: number;
            reason: components["schemas"]["EditReason"];
            runId?: string;
            /** Format: int64 */
            savedTokens: number;
            seq: number;
            sessionId: string;
            strategy: string;
        };
        ContextRestored: {
            compactionId: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "context:restored";
            runId?: string;
            seq: number;
            sessionId: string;
            /** Format: int64 */
            tokens: number;
        };
        ContextUsage: {
            /** Format: int64 */
            compactionCount: number;
            /**
             * Format: int64
             * @description Tokens of the total that are estimated.
             */
            estimated: number;
            /** Format: double */
            expectedError: number;
            /** Format: int64 */
            freeSpace: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "context:usage";
            /** Format: int64 */
            outputReserve: number;
            /** Format: double */
            percent: number;
            runId?: string;
            seq: number;
            sessionId: string;
            /** Format: int64 */
            total: number;
            /** Format: int64 */
            window: number;
        };
        CurrentModel: {
            model: string;
            provider: string;
            /**
             * Format: int64
             * @description Its window in tokens, where somebody states it.
             */
            window: number | null;
        };
        /**
         * @description Why an answer is not whole.
         * @enum {string}
         */
        Cut: "cancelled" | "lost" | "paused";
        /** @enum {string} */
        Decided: "allow" | "deny";
        /** @enum {string} */
        Decision: "allow" | "deny";
        Deleted: {
            id: string;
            ok: boolean;
        };
        Done: {
            ok: boolean;
        };
        /** @enum {string} */
        EditKind: "prune" | "compaction";
        EditOrder: {
            text: string;
        };
        /** @enum {string} */
        EditReason: "token_limit" | "overflow_error" | "model_switch" | "requested";
        ErrorContext: {
            stepId?: string;
        };
        /** @description One event of a session's stream. */
        Event: components["schemas"]["MessageAdded"] | components["schemas"]["MessageDequeued"] | components["schemas"]["RunStarted"] | components["schemas"]["RunComplete"] | components["schemas"]["SessionParked"] | components["schemas"]["LlmThinking"] | components["schemas"]["LlmResponse"] | components["schemas"]["LlmToolCall"] | components["schemas"]["LlmToolResult"] | components["schemas"]["LlmSwitched"] | components["schemas"]["RunWaiting"] | components["schemas"]["LlmError"] | components["schemas"]["LlmUnsupportedInput"] | components["schemas"]["LlmChunk"] | components["schemas"]["LlmToolInput"] | components["schemas"]["LlmSnapshot"] | components["schemas"]["ToolStarted"] | components["schemas"]["ToolOutput"] | components["schemas"]["ToolApprovalRequest"] | components["schemas"]["ToolApprovalResponse"] | components["schemas"]["ContextUsage"] | components["schemas"]["ContextEstimate"] | components["schemas"]["ContextPruned"] | components["schemas"]["ContextCompressed"] | components["schemas"]["ContextCompactFailed"] | components["schemas"]["ContextOmitted"] | components["schemas"]["ContextRestored"] | components["schemas"]["OrderPinnedEvent"] | components["schemas"]["OrderEditedEvent"] | components["schemas"]["OrderRemovedEvent"] | components["schemas"]["ContextCompacting"] | components["schemas"]["MessageQueued"] | components["schemas"]["MessageEdited"] | components["schemas"]["MessageRemoved"] | components["schemas"]["QueueSnapshot"] | components["schemas"]["StreamGap"];
        /** @enum {string} */
        ExportFormat: "jsonl" | "markdown";
        /** @description What went wrong: the stable code, and words for people. */
        Failed: {
            code: components["schemas"]["ProblemCode"];
            message: string;
        };
        /**
         * @description Why a run ended.
         * @enum {string}
         */
        FinishReason: "stop" | "max-steps" | "cancelled" | "timeout" | "loop-detected" | "length" | "error";
        ForkedFrom: {
            /** Format: int64 */
            atSeq: number;
            sessionId: string;
        };
        ForkSession: {
            /** Format: int64 */
            atSeq?: number | null;
        };
        /** @description What was found, and whether everything was looked through. */
        Found: {
            /** @description `true` if nothing was left out. */
            complete: boolean;
            hits: components["schemas"]["Hit"][];
            /** @description The gaps of the search; empty if the answer is complete. */
            incompleteReasons: components["schemas"]["SearchGap"][];
        };
        GivenBlob: string | components["schemas"]["BlobRef"];
        /** @description Content with either `data` or `blob`. */
        GivenMedia: {
            blob?: components["schemas"]["GivenBlob"] | null;
            /** @description The bytes, in base64. */
            data?: string | null;
            /** @description Found out by the content if it is left out. */
            mediaType?: string | null;
            /** @description The file's name; `filename` is taken too. */
            name?: string | null;
        };
        /** @description A part as a client gives it. */
        GivenPart: {
            text: string;
            /** @enum {string} */
            type: "text";
        } | (components["schemas"]["GivenMedia"] & {
            /** @enum {string} */
            type: "image";
        }) | (components["schemas"]["GivenMedia"] & {
            /** @enum {string} */
            type: "file";
        });
        Health: {
            /** @description `ok` or `ready`. */
            status: string;
        };
        /** @description A message, or a title, that has all the words. */
        Hit: {
            /** Format: int64 */
            at: number | null;
            /** @description What recalls the whole message; `null` for a title. */
            handle: string | null;
            role: components["schemas"]["Role"] | null;
            /**
             * Format: int64
             * @description Where the message is; `null` for a title.
             */
            seq: number | null;
            sessionId: string;
            /** @description The words and what stands around them. */
            text: string;
            title: string | null;
        };
        LlmChunk: {
            chunkType: components["schemas"]["Voice"];
            content: string;
            isComplete?: boolean;
            messageId: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "llm:chunk";
            /**
             * Format: int64
             * @description Characters of this voice before it.
             */
            offset: number;
            runId?: string;
            sessionId: string;
            stepId: string;
        };
        LlmError: {
            code: components["schemas"]["ProblemCode"];
            context: components["schemas"]["ErrorContext"];
            error: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "llm:error";
            recoverable: boolean;
            runId?: string;
            seq?: number;
            sessionId: string;
        };
        LlmResponse: {
            content: string;
            model: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "llm:response";
            provider: string;
            reasoning?: string;
            runId?: string;
            seq: number;
            sessionId: string;
            stepId: string;
            tokenUsage?: components["schemas"]["TokenUsage"];
        };
        LlmSnapshot: {
            messageId: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "llm:snapshot";
            /** Format: int64 */
            offset: number;
            parts: components["schemas"]["Spoken"][];
            /** Format: int64 */
            reasoningOffset: number;
            runId?: string;
            sessionId: string;
            stepId: string;
        };
        LlmSwitched: {
            historyRetained: boolean;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "llm:switched";
            newConfig: components["schemas"]["Origin"];
            runId?: string;
            seq: number;
            sessionId: string;
        };
        LlmThinking: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "llm:thinking";
            runId?: string;
            seq: number;
            sessionId: string;
        };
        LlmToolCall: {
            /** @description The arguments; `null` if what the model wrote is no JSON. */
            args: unknown;
            /** @description The arguments as the model wrote them. */
            argsText: string;
            callId: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "llm:tool-call";
            runId?: string;
            seq: number;
            sessionId: string;
            stepId: string;
            toolName: string;
        };
        LlmToolInput: {
            delta: string;
            /** Format: int64 */
            index: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "llm:tool-input";
            runId?: string;
            sessionId: string;
            stepId: string;
            /** @description With the first piece of a call; `null` after that. */
            toolName: string | null;
        };
        LlmToolResult: {
            callId: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "llm:tool-result";
            /** Format: int64 */
            omittedChars?: number;
            /** @description The whole of what was truncated. */
            rawResult?: components["schemas"]["BlobRef"];
            runId?: string;
            sanitized: components["schemas"]["Part"][];
            seq: number;
            sessionId: string;
            status: components["schemas"]["Outcome"];
            success: boolean;
            toolName: string;
            /** Format: int64 */
            totalChars?: number;
            truncated: boolean;
        };
        LlmUnsupportedInput: {
            details?: components["schemas"]["UnsupportedDetails"];
            /** @description What the model is shown in its place. */
            errors: string[];
            /** @description A media type. */
            fileType?: string;
            model?: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "llm:unsupported-input";
            provider: string;
            runId?: string;
            sessionId: string;
        };
        LoginRequest: {
            token: string;
        };
        /** @description Stored content and what it is. */
        Media: {
            blob: components["schemas"]["BlobRef"];
            /** Format: int32 */
            height?: number;
            mediaType: string;
            name?: string;
            /**
             * Format: int32
             * @description Pixels.
             */
            width?: number;
        };
        /** @description A message as the log has it. */
        Message: {
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            at: number | null;
            callId?: string;
            /**
             * Format: int64
             * @description When a placeholder took its place, in milliseconds since 1970.
             */
            compactedAt?: number;
            /** @description Why an answer that is `lost` was cut off. */
            error?: components["schemas"]["Failed"];
            id: string;
            interrupted?: components["schemas"]["Cut"];
            isNote?: boolean;
            isSummary?: boolean;
            /** @description What its client sent along with a user message. */
            metadata?: components["schemas"]["MessageMetadata"];
            model?: components["schemas"]["Origin"];
            /** @description What clients sent along with the messages that became this one, by their ids in the queue. */
            originalMetadata?: {
                [key: string]: components["schemas"]["MessageMetadata"];
            };
            parts: components["schemas"]["Part"][];
            reasoning?: string;
            /** @description The provider's own items, as JSON. */
            reasoningMetadata?: string[];
            role: components["schemas"]["Role"];
            /** Format: int64 */
            seq: number;
            /**
             * Format: int64
             * @description When the tool began to run, in milliseconds since 1970; a call that never ran has none.
             */
            startedAt?: number;
            status?: components["schemas"]["Outcome"];
            /**
             * Format: int64
             * @description When a summary took its place, in milliseconds since 1970.
             */
            summarizedAt?: number;
            tokenUsage?: components["schemas"]["TokenUsage"];
            toolCalls?: components["schemas"]["ToolCall"][];
            toolName?: string;
            truncated?: boolean;
        };
        MessageAdded: {
            /** @description The message that this one goes on with. */
            continues?: string;
            /** @description Why this answer is not whole. */
            interrupted?: components["schemas"]["Cut"];
            messageId: string;
            /** @description What its client sent along with a user message. */
            metadata?: components["schemas"]["MessageMetadata"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "message:added";
            /** @description What clients sent along with the messages that became this one, by their ids in the queue. */
            originalMetadata?: {
                [key: string]: components["schemas"]["MessageMetadata"];
            };
            parts: components["schemas"]["Part"][];
            /** @description More of this answer follows. */
            paused?: boolean;
            role: components["schemas"]["Role"];
            runId?: string;
            seq: number;
            sessionId: string;
            source: components["schemas"]["Source"];
        };
        MessageDequeued: {
            coalesced: boolean;
            /** Format: int64 */
            count: number;
            ids: string[];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "message:dequeued";
            runId?: string;
            seq: number;
            sessionId: string;
        };
        MessageEdited: {
            id: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "message:edited";
            runId?: string;
            sessionId: string;
        };
        /** @description Data of a client's own, kept with a message: at most 16 KiB of JSON and 32 levels. */
        MessageMetadata: {
            [key: string]: unknown;
        };
        MessageQueued: {
            id: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "message:queued";
            /** Format: int64 */
            position: number;
            runId?: string;
            sessionId: string;
        };
        MessageRemoved: {
            id: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "message:removed";
            runId?: string;
            sessionId: string;
        };
        Messages: {
            /**
             * Format: int64
             * @description Where the next page begins.
             */
            after: number | null;
            /**
             * Format: int64
             * @description Where the page before ends.
             */
            before: number | null;
            /** @description The positions of damaged events among the messages, if there are any: what they said is lost, the rest is shown. */
            damaged?: number[];
            hasMore: boolean;
            messages: components["schemas"]["Message"][];
        };
        MessageShare: {
            /** Format: int64 */
            media: number;
            /** Format: int64 */
            reasoning: number;
            /** Format: int64 */
            text: number;
            /** Format: int64 */
            toolResults: number;
            /** Format: int64 */
            total: number;
        };
        Models: {
            /** @description Servers of this machine that answer. */
            backends: components["schemas"]["Backend"][];
            current: components["schemas"]["CurrentModel"];
            /** @description Whether the current model is the scripted one of the demo. */
            demo: boolean;
            /** @description The folder that the agent's tools work in. */
            workspace: string;
        };
        /** @description A message for the agent. */
        NewMessage: {
            /** @description For a new session: a configured agent by name; the usual one if it is left out. */
            agent?: string | null;
            content: components["schemas"]["Content"];
            metadata?: components["schemas"]["MessageMetadata"] | null;
            /** @description A new session if it is left out. */
            sessionId?: string | null;
        };
        NewSession: {
            /** @description A configured agent by name; the usual one if it is left out. */
            agent?: string | null;
            title?: string | null;
        };
        /** @description A part of a request that is left out because the model's server refuses it. */
        OmittedPart: {
            /** @description What the model is shown in its place. */
            note: string;
            /**
             * Format: int64
             * @description Its number in the message or the content, from 0.
             */
            part: number;
            /**
             * Format: int64
             * @description The position of the message.
             */
            seq: number;
            /** @enum {string} */
            what: "part";
        } | {
            /** @description Its name. */
            name: string;
            /** @enum {string} */
            what: "tool";
        };
        OrderChanged: {
            ok: boolean;
            order: components["schemas"]["StandingOrder"];
        };
        OrderEditedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "order:edited";
            orderId: string;
            runId?: string;
            seq: number;
            sessionId: string;
            text: string;
        };
        OrderPinned: {
            /** @description Whether it was made now: an order that says the same is not made twice. */
            created: boolean;
            ok: boolean;
            order: components["schemas"]["StandingOrder"];
        };
        OrderPinnedEvent: {
            /**
             * Format: int64
             * @description The message it was said in, if it is known.
             */
            fromSeq?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "order:pinned";
            orderId: string;
            /** @description The order that does not hold any more. */
            replaces?: string;
            runId?: string;
            seq: number;
            sessionId: string;
            source: components["schemas"]["OrderSource"];
            text: string;
        };
        OrderRemovedEvent: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "order:removed";
            orderId: string;
            runId?: string;
            seq: number;
            sessionId: string;
        };
        /** @description Standing orders. */
        Orders: {
            orders: components["schemas"]["StandingOrder"][];
        };
        /**
         * @description Who made a standing order.
         * @enum {string}
         */
        OrderSource: "user" | "model" | "summary" | "detected";
        /**
         * @description Whether a standing order holds.
         * @enum {string}
         */
        OrderState: "active" | "superseded" | "removed";
        /** @description Who serves a model. */
        Origin: {
            api: string;
            model: string;
            provider: string;
        };
        /**
         * @description How a tool ended.
         * @enum {string}
         */
        Outcome: "completed" | "error" | "cancelled" | "interrupted";
        /** @description A part of a message. */
        Part: {
            /** @description Markup that is safe to show, where it was asked for. */
            html?: string;
            /** @description The provider's own item, as JSON. */
            native?: string;
            text: string;
            /** @enum {string} */
            type: "text";
        } | {
            native?: string;
            text: string;
            /** @enum {string} */
            type: "reasoning";
        } | {
            /** @description JSON, as the model wrote it. */
            arguments: string;
            call_id: string;
            name: string;
            native?: string;
            provider_id?: string;
            /** @enum {string} */
            type: "tool-call";
        } | {
            call_id: string;
            content: components["schemas"]["Part"][];
            status: components["schemas"]["Outcome"];
            truncated?: components["schemas"]["Truncation"];
            /** @enum {string} */
            type: "tool-result";
        } | (components["schemas"]["Media"] & {
            /** @enum {string} */
            type: "image";
        }) | (components["schemas"]["Media"] & {
            /** @enum {string} */
            type: "file";
        }) | {
            kind: string;
            native: string;
            /** @enum {string} */
            type: "opaque";
        };
        /** @enum {string} */
        Persisted: "partial_assistant" | "tools_in_progress";
        PinOrder: {
            /** @description The order that it takes the place of. */
            replaces?: string | null;
            text: string;
        };
        /** @enum {string} */
        PlannedAction: "nothing" | "edit" | "summarise";
        /** @description A problem document (RFC 9457). */
        Problem: {
            code: components["schemas"]["ProblemCode"];
            detail: string;
            /** Format: int32 */
            status: number;
            title: string;
            /**
             * Format: int64
             * @description Tokens that the view would have (`context-overflow`).
             */
            tokens?: number;
            /** @description `urn:longhaul:problem:` and the code. */
            type: string;
            /**
             * Format: int64
             * @description Tokens that are usable (`context-overflow`).
             */
            usable?: number;
        };
        /**
         * @description Stable codes of problems and of errors in events.
         * @enum {string}
         */
        ProblemCode: "rate-limit-exceeded" | "timeout" | "context-overflow" | "auth" | "invalid-request" | "refused" | "third-party" | "network" | "truncated-stream" | "interrupted" | "storage" | "not-found" | "conflict" | "queue-full" | "max-compactions" | "already-undone" | "already-released" | "not-undone";
        Queue: {
            /** Format: int64 */
            count: number;
            entries: components["schemas"]["QueueEntry"][];
            sessionId: string;
        };
        QueueChanged: {
            id: string;
            ok: boolean;
            sessionId: string;
        };
        QueueCleared: {
            ok: boolean;
            removed: string[];
            sessionId: string;
        };
        QueuedContent: {
            content: components["schemas"]["Content"];
            metadata?: components["schemas"]["MessageMetadata"] | null;
        };
        /** @description A message that waits. */
        QueueEntry: {
            id: string;
            /** @description What its client sent along. */
            metadata?: components["schemas"]["MessageMetadata"];
            parts: components["schemas"]["Part"][];
            /**
             * Format: int64
             * @description From 1.
             */
            position: number;
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            queuedAt: number;
        };
        QueueSnapshot: {
            entries: components["schemas"]["QueueEntry"][];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "queue:snapshot";
            runId?: string;
            sessionId: string;
        };
        Recalled: {
            /** @description What matches a `query`, the best first; left out where a handle was given. */
            hits?: components["schemas"]["RecallHit"][];
            sessionId: string;
            /** @description The original, or the hits one below the other; empty if nothing matches. */
            text: string;
        };
        /** @description A message that matches. */
        RecallHit: {
            handle: string;
            /**
             * Format: int64
             * @description Where it is in the log.
             */
            seq: number;
            /** @description Whose words these are: `user`, `assistant`, `note`, `result of TOOL`. */
            speaker: string;
            /** @description The words and what stands around them. */
            text: string;
        };
        Released: {
            compactionId: string;
            ok: boolean;
        };
        RenameSession: {
            title: string;
        };
        Rendered: {
            html: string[];
        };
        /**
         * @description A form that texts are given in besides their own.
         * @enum {string}
         */
        RenderForm: "html";
        RenderRequest: {
            texts: string[];
        };
        Restored: {
            compactionId: string;
            ok: boolean;
            /**
             * Format: int64
             * @description What the view has now.
             */
            tokens: number;
        };
        Resumed: {
            /** @description Where it began in another folder than the one in which its tools work now: that, in words. */
            folderWarning?: string;
            ok: boolean;
            /** @description Why not. */
            reason?: string;
            resumed: boolean;
            sessionId: string;
            status: components["schemas"]["Status"];
        };
        ResumeRun: Record<string, never>;
        Retried: {
            ok: boolean;
            /** @description Whether the session waited for its model's server. */
            retried: boolean;
            sessionId: string;
        };
        /**
         * @description Who writes.
         * @enum {string}
         */
        Role: "user" | "assistant" | "tool";
        RunComplete: {
            error?: components["schemas"]["RunError"];
            finishReason: components["schemas"]["FinishReason"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "run:complete";
            runId?: string;
            seq: number;
            sessionId: string;
            /** Format: int64 */
            steps: number;
            usage: components["schemas"]["TokenUsage"] | null;
        };
        RunError: {
            code: components["schemas"]["ProblemCode"];
            message: string;
        };
        RunStarted: {
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "run:started";
            runId?: string;
            seq: number;
            sessionId: string;
        };
        RunWaiting: {
            /**
             * Format: int64
             * @description The attempt that comes, from 1 for the first repetition.
             */
            attempt: number;
            lastError: components["schemas"]["Failed"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "run:waiting";
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            nextAttemptAt: number;
            reason: components["schemas"]["WaitReason"];
            runId?: string;
            sessionId: string;
        };
        /**
         * @description A part of the sessions that a search left out.
         * @enum {string}
         */
        SearchGap: "more-hits" | "too-many-sessions" | "too-many-events" | "too-much-content" | "damage";
        /** @description What became of a message: taken at once, or queued for the next step. */
        Sent: components["schemas"]["SentNow"] | components["schemas"]["SentLater"];
        SentLater: {
            /** @description Its name in the queue. */
            id: string;
            /** @description For people. */
            message: string;
            ok: boolean;
            /**
             * Format: int64
             * @description Its place in the queue, from 1.
             */
            position: number;
            /** @enum {boolean} */
            queued: true;
            sessionId: string;
        };
        SentNow: {
            /** @description Its name in the log. */
            messageId: string;
            ok: boolean;
            /** @enum {boolean} */
            queued: false;
            sessionId: string;
        };
        Session: {
            /** @description The agent's name. */
            agent: string;
            /** Format: int64 */
            compactionCount: number;
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            createdAt: number;
            /** @description The positions of damaged events, if there are any. The figures are those of what stands before the first. */
            damaged?: number[];
            /** @description Why a damaged session cannot go on. */
            error?: components["schemas"]["Failed"];
            /** @description The folder in which it began, if it is known. */
            folder?: string;
            /** @description Where it began in another folder than the one in which its tools work now: that, in words. */
            folderWarning?: string;
            /** @description Only in the answer to a fork. */
            forkedFrom?: components["schemas"]["ForkedFrom"];
            /** @description How it goes on then. */
            goOn?: string;
            id: string;
            lastError?: components["schemas"]["Failed"];
            lastFinishReason?: components["schemas"]["FinishReason"];
            /**
             * Format: int64
             * @description The newest position of its log.
             */
            lastSeq: number;
            model: components["schemas"]["Origin"];
            /** @description Why it rests for good. */
            parked?: string;
            /**
             * Format: int64
             * @description Messages that wait.
             */
            queued: number;
            status: components["schemas"]["Status"];
            title: string | null;
            tokenUsage: components["schemas"]["TokenUsage"];
            /** Format: int64 */
            updatedAt: number;
            /** @description Only while the status is `waiting_for_server`. */
            waiting?: components["schemas"]["Waiting"];
        };
        /** @description What is known of a session without opening it. */
        SessionBrief: {
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            createdAt: number;
            id: string;
            lastError?: components["schemas"]["Failed"];
            /** @description How its newest run ended, where nothing runs now and the end is among the newest of its log. */
            lastFinishReason?: components["schemas"]["FinishReason"];
            /**
             * Format: int64
             * @description The newest position of its log.
             */
            lastSeq: number;
            /**
             * Format: int64
             * @description Messages that wait.
             */
            queued: number;
            status: components["schemas"]["Status"];
            title: string | null;
            /** Format: int64 */
            updatedAt: number;
        };
        SessionParked: {
            goOn: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "session:parked";
            reason: string;
            runId?: string;
            seq: number;
            sessionId: string;
        };
        Sessions: {
            sessions: components["schemas"]["SessionBrief"][];
        };
        /** @description The settings that hold. */
        Settings: {
            allowed: components["schemas"]["SettingsAllowed"];
            autoRecall: boolean;
            pruningAgent: string;
            sources: components["schemas"]["SettingsSources"];
            /** @description The strategies that there are. */
            strategies: string[];
            strategy: string;
            summarizeWith: string;
            trigger: components["schemas"]["SettingsTrigger"] | null;
        };
        /** @description What may be chosen: a strategy or a trigger as it stands here, agents and models by `value`. */
        SettingsAllowed: {
            autoRecall: boolean[];
            pruningAgent: components["schemas"]["AllowedName"][];
            strategy: string[];
            summarizeWith: components["schemas"]["AllowedName"][];
            /** @description `none` is when the strategy itself says. */
            trigger: string[];
        };
        /** @description What is to change: what is left out stays, `null` gives it back to the agent file. */
        SettingsChange: {
            autoRecall?: boolean | null;
            /** @description `__same__`, an agent or a model. */
            pruningAgent?: string | null;
            strategy?: string | null;
            /** @description `same`, `extract` or a model. */
            summarizeWith?: string | null;
            trigger?: components["schemas"]["SettingsTrigger"] | null;
        };
        /** @description Where each value comes from: `default`, `agent-file` or `settings`. */
        SettingsSources: {
            autoRecall: string;
            pruningAgent: string;
            strategy: string;
            summarizeWith: string;
            trigger: string;
        };
        /** @description When a strategy acts. */
        SettingsTrigger: {
            /**
             * Format: double
             * @description Of the window, above 0 and at most 1.
             */
            percentage?: number | null;
            /** Format: int64 */
            triggerTokens?: number | null;
            /** @description `threshold`, which need not be said, or `overflow`, `planner`, `manual` without a figure. */
            type?: string | null;
        };
        /**
         * @description Who wrote a message.
         * @enum {string}
         */
        Source: "typed" | "note" | "summary" | "model";
        /** @description What was said so far in one voice. */
        Spoken: {
            text: string;
            type: components["schemas"]["Voice"];
        };
        /** @description An instruction that holds beyond the next answer. */
        StandingOrder: {
            /**
             * Format: int64
             * @description The message it was said in, if it is known.
             */
            fromSeq?: number;
            id: string;
            /**
             * Format: int64
             * @description The event that pinned it.
             */
            seq: number;
            source: components["schemas"]["OrderSource"];
            state: components["schemas"]["OrderState"];
            /** @description The order that holds instead. */
            supersededBy?: string;
            text: string;
        };
        /**
         * @description What a session does.
         * @enum {string}
         */
        Status: "idle" | "streaming" | "executing_tools" | "waiting_approval" | "compacting" | "waiting_for_server" | "parked";
        StreamGap: {
            /** Format: int64 */
            from: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "stream:gap";
            runId?: string;
            sessionId: string;
            /** Format: int64 */
            to: number;
        };
        /** @description The outcome of the check of a model's summary. */
        SummaryCheck: {
            /** @description Whether the edit has a summary that passed the check; `false` for an extract in its place. */
            checked: boolean;
            /** @description Why earlier answers were refused, in words, oldest first. */
            reasons: string[];
        };
        /** @description What an edit leaves of the facts, by class. */
        Survival: {
            classes: {
                [key: string]: components["schemas"]["Tally"];
            };
        };
        SwitchedModel: {
            /** @description The model as the log has it now; at `next-step` it is still the one before. */
            model: components["schemas"]["Origin"];
            ok: boolean;
            sessionId: string;
            when: components["schemas"]["When"];
        };
        /** @description An agent, a model, or both. */
        SwitchModel: {
            /** @description A configured agent by name; the present one if it is left out. */
            agent?: string | null;
            /** @description A model of a configured agent, or one that the usual agent's server lists; the agent's own if it is left out. */
            model?: string | null;
        };
        Tally: {
            /** Format: int64 */
            lost: number;
            /** Format: int64 */
            recoverableByModel: number;
            /** Format: int64 */
            recoverableByUser: number;
            /** Format: int64 */
            verbatim: number;
        };
        Threshold: {
            name: string;
            /** Format: int64 */
            tokens: number;
        };
        /** @description Tokens. */
        TokenUsage: {
            /** Format: int64 */
            cacheReadTokens: number;
            /** Format: int64 */
            cacheWriteTokens: number;
            /**
             * Format: int64
             * @description With what was read from and written to the cache.
             */
            inputTokens: number;
            /** Format: int64 */
            outputTokens: number;
            /** Format: int64 */
            reasoningTokens: number;
            /** Format: int64 */
            totalTokens: number;
        };
        ToolApprovalRequest: {
            approvalId: string;
            /** @description The arguments; `null` if what the model wrote is no JSON. */
            args: unknown;
            /** @description The arguments as the model wrote them. */
            argsText: string | null;
            callId: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "tool:approval-request";
            runId?: string;
            seq: number;
            sessionId: string;
            toolName: string | null;
        };
        ToolApprovalResponse: {
            approvalId: string;
            decision: components["schemas"]["Decided"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "tool:approval-response";
            runId?: string;
            seq: number;
            sessionId: string;
        };
        ToolCall: {
            /** @description The arguments; `null` if what the model wrote is no JSON. */
            args: unknown;
            /** @description The arguments as the model wrote them. */
            argsText: string;
            callId: string;
            status: components["schemas"]["CallStatus"] | null;
            toolName: string;
        };
        ToolOutput: {
            callId: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "tool:output";
            /** Format: int64 */
            offset: number;
            runId?: string;
            sessionId: string;
            text: string;
        };
        ToolShare: {
            source: string;
            /** Format: int64 */
            tokens: number;
        };
        ToolStarted: {
            callId: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "tool:started";
            runId?: string;
            seq: number;
            sessionId: string;
        };
        /** @description How much of a result the model is shown; the blob has the rest. */
        Truncation: {
            blob: components["schemas"]["BlobRef"];
            /** Format: int64 */
            headBytes: number;
            /** Format: int64 */
            lostBytes: number;
            /** Format: int64 */
            omittedChars: number;
            /** Format: int64 */
            totalChars: number;
        };
        /** @description What `DefaultChatTransport` posts. Other fields are passed over. */
        UiChat: {
            /** @description For a new chat: a configured agent by name; the usual one if it is left out. */
            agent?: string | null;
            /** @description The chat: a session's id, or any name of up to 500 characters. */
            id: string;
            message?: components["schemas"]["UiMessage"] | null;
            /** @description The newest one counts. */
            messages?: components["schemas"]["UiMessage"][];
            /** @description `submit-message`, or `regenerate-message` to go on after an error. */
            trigger?: string | null;
        };
        UiMessage: {
            id?: string;
            metadata?: components["schemas"]["MessageMetadata"] | null;
            /** @description Parts of the AI SDK's `UIMessage`. */
            parts?: components["schemas"]["UiPart"][];
            role: string;
        };
        /** @description A part of a message, or of the stream. */
        UiPart: {
            type: string;
        };
        /**
         * @description What an undo would come to now: `built-on` means that a later edit must be undone first.
         * @enum {string}
         */
        UndoNow: "possible" | "undone" | "built-on" | "no-room";
        /** @description Of a picture or a file that the model does not take. */
        UnsupportedDetails: {
            name: string | null;
        };
        /** @description Content that was stored. */
        Uploaded: {
            /** Format: int64 */
            bytes: number;
            hash: string;
            /** Format: int32 */
            height: number | null;
            mediaType: string;
            name: string | null;
            part: components["schemas"]["UploadedPart"];
            /** Format: int32 */
            width: number | null;
        };
        /** @description The part to send it as. */
        UploadedPart: {
            blob: components["schemas"]["BlobRef"];
            mediaType: string;
            name: string | null;
            /** @description `image` or `file`. */
            type: string;
        };
        /** @enum {string} */
        Voice: "text" | "reasoning";
        /** @description A wait for the model's server. */
        Waiting: {
            /**
             * Format: int64
             * @description The attempt that comes, from 1 for the first repetition.
             */
            attempt: number;
            lastError: components["schemas"]["Failed"];
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            nextAttemptAt: number;
            reason: components["schemas"]["WaitReason"];
        };
        /**
         * @description Why a model call is made again.
         * @enum {string}
         */
        WaitReason: "outage" | "rate-limit" | "broken-answer";
        /**
         * @description When the switch holds.
         * @enum {string}
         */
        When: "now" | "next-step" | "already";
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    getPage: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            /** @description It is the one that is known */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    agUiRun: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AgUiInput"];
            };
        };
        responses: {
            /** @description Each `data:` is one event of AG-UI */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["AgUiEvent"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listAgents: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The agents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Agents"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listApprovals: {
        parameters: {
            query?: {
                sessionId?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What waits */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Approvals"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    decideApproval: {
        parameters: {
            query?: {
                sessionId?: string;
            };
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ApprovalAnswer"];
            };
        };
        responses: {
            /** @description Decided */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApprovalDecided"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    login: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LoginRequest"];
            };
        };
        responses: {
            /** @description With the cookie */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    logout: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Without the cookie */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    sendMessage: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewMessage"];
            };
        };
        responses: {
            /** @description Taken, or queued */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Sent"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listQueue: {
        parameters: {
            query: {
                sessionId: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description In their order */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Queue"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    clearQueue: {
        parameters: {
            query: {
                sessionId: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueueCleared"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    removeQueued: {
        parameters: {
            query?: {
                sessionId?: string;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueueChanged"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    editQueued: {
        parameters: {
            query?: {
                sessionId?: string;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["QueuedContent"];
            };
        };
        responses: {
            /** @description Changed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueueChanged"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listModels: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The models */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Models"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    renderMarkdown: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RenderRequest"];
            };
        };
        responses: {
            /** @description In the order of the texts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rendered"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    search: {
        parameters: {
            query: {
                /** @description 20 unless it is said, at most 100. */
                limit?: number;
                /** @description Words, all of which must be there. */
                q: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The messages and titles that have all the words, and whether anything was left out */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Found"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listSessions: {
        parameters: {
            query?: {
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The sessions */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Sessions"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    createSession: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NewSession"];
            };
        };
        responses: {
            /** @description Made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The agent cannot be used. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    deleteSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Deleted"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    renameSession: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RenameSession"];
            };
        };
        responses: {
            /** @description Renamed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    uploadBlob: {
        parameters: {
            query?: {
                name?: string;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            /** @description Stored */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Uploaded"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    readBlob: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                hash: string;
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The bytes; pictures with their own type */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": number[];
                    "image/gif": number[];
                    "image/jpeg": number[];
                    "image/png": number[];
                    "image/webp": number[];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    cancelRun: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CancelRun"];
            };
        };
        responses: {
            /** @description What was stopped */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Cancelled"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    compact: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CompactRequest"];
            };
        };
        responses: {
            /** @description What was done, or would be */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Compacted"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listCompactions: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The oldest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Compactions"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    releaseCompaction: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                edit: string;
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Released */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Released"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    undoCompaction: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                edit: string;
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Undone */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Restored"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getContext: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The meter */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Context"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    watchEvents: {
        parameters: {
            query?: {
                /** @description The position to go on from; 0 brings everything. */
                after?: number;
            };
            header?: {
                /** @description The `id` of the event to go on from; wins over `after` */
                "Last-Event-ID"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Each `data:` is one `Event`, `event:` its name, `id:` its position: `3` has all of event 3, `3.1` the first of the several events that it means */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["Event"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    exportSession: {
        parameters: {
            query?: {
                format?: components["schemas"]["ExportFormat"];
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. Damaged events are left out, and `x-longhaul-damaged-events` names their positions */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                    "text/markdown": string;
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    forkSession: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ForkSession"];
            };
        };
        responses: {
            /** @description Made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    switchModel: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SwitchModel"];
            };
        };
        responses: {
            /** @description Switched, or will be at the next step */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SwitchedModel"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listMessages: {
        parameters: {
            query?: {
                /** @description Behind this position; not with `before`. */
                after?: number;
                /** @description Before this position. */
                before?: number;
                /** @description 100 unless it is said, at most 500. */
                limit?: number;
                /** @description Puts `html` beside the texts of models. */
                render?: components["schemas"]["RenderForm"];
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Messages"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    listOrders: {
        parameters: {
            query?: {
                /** @description Those that do not hold any more too. */
                all?: boolean;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Those that hold */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Orders"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    pinOrder: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PinOrder"];
            };
        };
        responses: {
            /** @description An order that holds says the same */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrderPinned"];
                };
            };
            /** @description Pinned */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrderPinned"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    removeOrder: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                order: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrderChanged"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    editOrder: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                order: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EditOrder"];
            };
        };
        responses: {
            /** @description Changed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrderChanged"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    recall: {
        parameters: {
            query?: {
                handle?: string;
                limit?: number;
                query?: string;
                range?: string;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As text, and each hit by itself */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recalled"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    resumeRun: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ResumeRun"];
            };
        };
        responses: {
            /** @description Whether a run began */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Resumed"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    retryNow: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ResumeRun"];
            };
        };
        responses: {
            /** @description Whether an attempt was made at once */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Retried"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getSettings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The settings */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Settings"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    changeSettings: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SettingsChange"];
            };
        };
        responses: {
            /** @description The settings that hold now */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Settings"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    uiChat: {
        parameters: {
            query?: never;
            header?: {
                /** @description The same key again does nothing and gets the same answer. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["UiChat"];
            };
        };
        responses: {
            /** @description Each `data:` is one part, the last one `[DONE]` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["UiPart"];
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body came to a stop. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is too large. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The body is not JSON. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The key was used for another request, or what was asked was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    uiChatStream: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Each `data:` is one part, the last one `[DONE]` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["UiPart"];
                };
            };
            /** @description Nothing is on its way */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getHealth: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It lives */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
        };
    };
    getMetrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The figures */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    openPage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description To the page */
            303: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getOpenapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OpenAPI 3.1 */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The token is missing or wrong. */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getReadiness: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getPageFile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The file; it may lie in folders */
                path: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "image/svg+xml": string;
                    "text/css": string;
                    "text/html": string;
                    "text/javascript": string;
                };
            };
            /** @description It is the one that is known */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is wrong. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name or the page that asks is foreign. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description What is named does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description It cannot be done as things are. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too much at once; `Retry-After` says when to come again. */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The server failed. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The store does not answer, or the server is ending. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
