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
        /** Run the agent on the newest message of a conversation (AG-UI) */
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
        /** List the configured agents */
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
        /** List tool calls that wait for approval */
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
        /** Answer an approval request */
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
        /** Exchange the token for the page's cookie */
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
        /** Remove the page's cookie */
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
        /** Send a message; a busy session queues it */
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
        /** List the queued messages */
        get: operations["listQueue"];
        put?: never;
        post?: never;
        /** Clear the queue */
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
        /** Remove a queued message */
        delete: operations["removeQueued"];
        options?: never;
        head?: never;
        /** Edit a queued message */
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
        /** List the models and the model servers of this machine */
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
        /** Render Markdown as safe HTML */
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
        /** Search all sessions, the newest first */
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
        /** List sessions, the most recently changed first */
        get: operations["listSessions"];
        put?: never;
        /** Create a session */
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
        /** Get a session */
        get: operations["getSession"];
        put?: never;
        post?: never;
        /** Delete a session for good */
        delete: operations["deleteSession"];
        options?: never;
        head?: never;
        /** Rename a session */
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
        /** Upload content */
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
        /** Get the bytes of a blob that the log names */
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
        /** Cancel the current run */
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
        /** Compact a session now, or plan it (dry run) */
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
        /** List compactions and prunings */
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
        /** Release an undone range, so that it may be compacted again */
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
        /** Undo a compaction */
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
        /** Get the use of the context window */
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
        /** Stream the events of a session (server-sent events) */
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
        /** Export a session */
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
        /** Fork a session at a position of its log */
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
        /** Switch a session to another agent or model; its history stays */
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
        /** List all messages of the log, page by page */
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
        /** List standing orders, the oldest first */
        get: operations["listOrders"];
        put?: never;
        /** Pin a standing order, which the model sees whole from its next step on */
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
        /** Remove a standing order; the log keeps it */
        delete: operations["removeOrder"];
        options?: never;
        head?: never;
        /** Edit a standing order */
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
        /** Recall an exact original, or search a session */
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
        /** Resume a session */
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
         * Retry the model's server at once
         * @description Has an effect only while the session waits for the server (status `waiting_for_server`).
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
        /** Get the current settings and their sources */
        get: operations["getSettings"];
        /** Change settings of all sessions from their next decision on */
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
        /** Send the newest message of a chat and stream the answer (AI SDK UI message stream) */
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
        /** Stream the current answer of a chat from its beginning */
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
        /** Check whether the server is running */
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
        /** Get metrics in the text format of Prometheus */
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
        /** Open the page with a login link, which sets its cookie */
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
        /** Get this description */
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
        /** Check whether the server is ready */
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
        /** Get a file of the page */
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
            /** @description `true` for the default agent. */
            isDefault: boolean;
            /** @description The configured model of the agent. */
            model: string;
            name: string;
            usable: boolean;
            /** @description The reason why the agent cannot be used. */
            why?: string;
        };
        Agents: {
            /** @description The agents, the default one first. */
            agents: components["schemas"]["AgentBrief"][];
        };
        /** @description An event of the stream. */
        AgUiEvent: {
            type: string;
        };
        /** @description The request of an AG-UI client: `RunAgentInput`. Other fields are ignored. */
        AgUiInput: {
            /** @description `agent`: for a new conversation, a configured agent by name. */
            forwardedProps?: Record<string, never> | null;
            /** @description The messages of the client. Only the newest one is used. */
            messages: components["schemas"]["AgUiMessage"][];
            /** @description Answers to questions that ended a run. */
            resume?: components["schemas"]["AgUiResume"][];
            /** @description The client's name for the run. */
            runId: string;
            /** @description The client's state. The server writes to its key `longhaul`. */
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
        /** @description A tool call that waits for approval. */
        Approval: {
            /** @description The id of the approval, unique on the server. */
            approvalId: string;
            /** @description The arguments as JSON, or `null` if the model wrote invalid JSON. */
            args: unknown;
            /** @description The arguments as text, as the model wrote them. */
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
        /** @description A model server on this machine. */
        Backend: {
            /** @description The base URL of its API. */
            baseUrl: string;
            /** @description The names of the server's models. */
            models: string[];
            /** @description The probable kind of server, for example `Ollama`. */
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
        /** @description The hash of stored content. */
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
        /** @description The outcome of a compaction, or its plan. */
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
        /** @description The plan of a compaction. */
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
            /** @description Instructions for the summary: what to keep. */
            instructions?: string | null;
            strategy?: string | null;
        };
        /** @description The content of a message: a text, or a list of parts. */
        Content: string | components["schemas"]["GivenPart"][];
        /** @description The use of the context window: how full it is, what fills it, and where the figures come from. All counts are tokens. */
        Context: {
            basis: components["schemas"]["Basis"];
            /**
             * Format: int64
             * @description The number of messages that the view replaces by summaries or notes.
             */
            compacted: number;
            /** Format: int64 */
            compactionCount: number;
            counter: string;
            /** Format: int64 */
            deferredTools: number;
            /**
             * Format: double
             * @description The expected error of `total`, as a share of 1.
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
             * @description The number of tool results that the view shows as placeholders.
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
            trigger: number;
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
            /** @description The outcome of the check of the summary, if a model was asked for one. */
            summary?: components["schemas"]["SummaryCheck"];
            survival: components["schemas"]["Survival"] | null;
            /** Format: int64 */
            trigger: number;
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
            /** @description The id by which the omission is undone. */
            compactionId: string;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "context:omitted";
            parts: components["schemas"]["OmittedPart"][];
            /** @description The error message of the model's server. */
            reason: string;
            runId?: string;
            seq: number;
            sessionId: string;
        };
        ContextPruned: {
            compactionId: string;
            /** Format: int64 */
            compressedTokens: number;
            /** @description A sentence that says what was done and why. */
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
             * @description The tokens of `total` that are estimated.
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
             * @description The context window in tokens, if it is known.
             */
            window: number | null;
        };
        /**
         * @description The reason why an answer is incomplete.
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
        /** @description An error: a stable code and a message for people. */
        Failed: {
            code: components["schemas"]["ProblemCode"];
            message: string;
        };
        /**
         * @description The reason why a run ended.
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
        /** @description The hits of a search, and whether the search was complete. */
        Found: {
            /** @description `true` if the search covered everything. */
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
            /** @description The media type. Without it, the server detects it from the content. */
            mediaType?: string | null;
            /** @description The file's name. `filename` is accepted as well. */
            name?: string | null;
        };
        /** @description A part as a client sends it. */
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
        /** @description A message or title that contains all words of the query. */
        Hit: {
            /** Format: int64 */
            at: number | null;
            /** @description The handle that recalls the whole message; `null` for a title. */
            handle: string | null;
            role: components["schemas"]["Role"] | null;
            /**
             * Format: int64
             * @description The position of the message; `null` for a title.
             */
            seq: number | null;
            sessionId: string;
            /** @description An excerpt with the matching words. */
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
             * @description The number of characters of this kind (text or reasoning) before the chunk.
             */
            offset: number;
            runId?: string;
            sessionId: string;
            stepId: string;
        };
        LlmError: {
            code: components["schemas"]["ProblemCode"];
            /** @description The failed model call. Absent in an error outside of a call. */
            context?: components["schemas"]["ErrorContext"];
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
            /** @description The arguments as JSON, or `null` if the model wrote invalid JSON. */
            args: unknown;
            /** @description The arguments as text, as the model wrote them. */
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
            /** @description The name of the tool in the first chunk of a call, then `null`. */
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
            /** @description The blob with the whole output. */
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
            /** @description The text that the model sees instead. */
            errors: string[];
            /** @description The media type of the part. */
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
        /** @description Stored content with its media type and name. */
        Media: {
            blob: components["schemas"]["BlobRef"];
            /** Format: int32 */
            height?: number;
            mediaType: string;
            name?: string;
            /**
             * Format: int32
             * @description In pixels.
             */
            width?: number;
        };
        /** @description A message of the log. */
        Message: {
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            at: number | null;
            callId?: string;
            /**
             * Format: int64
             * @description The time when a placeholder replaced the result, in milliseconds since 1970.
             */
            compactedAt?: number;
            /** @description The id of the paused answer that a `lost` attempt was to continue. */
            continues?: string;
            /** @description The error that cut off an answer marked `lost` or `paused`. */
            error?: components["schemas"]["Failed"];
            id: string;
            interrupted?: components["schemas"]["Cut"];
            isNote?: boolean;
            isSummary?: boolean;
            /** @description The metadata that the client sent with a user message. */
            metadata?: components["schemas"]["MessageMetadata"];
            model?: components["schemas"]["Origin"];
            /** @description The metadata of the queued messages that were joined into this one, by their ids in the queue. */
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
             * @description The time when the tool started, in milliseconds since 1970. Absent if the call never ran.
             */
            startedAt?: number;
            status?: components["schemas"]["Outcome"];
            /**
             * Format: int64
             * @description The time when a summary replaced the message, in milliseconds since 1970.
             */
            summarizedAt?: number;
            tokenUsage?: components["schemas"]["TokenUsage"];
            toolCalls?: components["schemas"]["ToolCall"][];
            toolName?: string;
            truncated?: boolean;
        };
        MessageAdded: {
            /** @description The id of the message that this one continues. */
            continues?: string;
            /** @description The reason why the answer is incomplete. */
            interrupted?: components["schemas"]["Cut"];
            messageId: string;
            /** @description The metadata that the client sent with a user message. */
            metadata?: components["schemas"]["MessageMetadata"];
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "message:added";
            /** @description The metadata of the queued messages that were joined into this one, by their ids in the queue. */
            originalMetadata?: {
                [key: string]: components["schemas"]["MessageMetadata"];
            };
            parts: components["schemas"]["Part"][];
            /** @description `true` if another message continues this answer. */
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
        /** @description A client's own data, stored with a message: at most 16 KiB of JSON and 32 levels. */
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
             * @description The value of `after` for the next page.
             */
            after: number | null;
            /**
             * Format: int64
             * @description The value of `before` for the previous page.
             */
            before: number | null;
            /** @description The positions of damaged events on this page, if there are any. Their content is lost; the rest is complete. */
            damaged?: number[];
            hasMore: boolean;
            messages: components["schemas"]["Message"][];
            /** @description The ends of runs on this page that did not end with their answer, if there are any. */
            runEnds?: components["schemas"]["RunEnd"][];
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
            /** @description The model servers that answer on this machine. */
            backends: components["schemas"]["Backend"][];
            current: components["schemas"]["CurrentModel"];
            /** @description `true` if the current model is the scripted model of the demo. */
            demo: boolean;
            /** @description The folder that the agent's tools work in. */
            workspace: string;
        };
        /** @description A message for the agent. */
        NewMessage: {
            /** @description For a new session: the name of a configured agent. Without it, the default agent. */
            agent?: string | null;
            content: components["schemas"]["Content"];
            metadata?: components["schemas"]["MessageMetadata"] | null;
            /** @description The session. Without it, a new session is created. */
            sessionId?: string | null;
        };
        NewSession: {
            /** @description The name of a configured agent. Without it, the default agent. */
            agent?: string | null;
            title?: string | null;
        };
        /** @description A part of a request that is left out because the model's server refuses it. */
        OmittedPart: {
            /** @description The text that the model sees instead. */
            note: string;
            /**
             * Format: int64
             * @description The index in the message or the content, from 0.
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
            /** @description The name of the tool. */
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
            /** @description `false` if an active order with the same text existed already. */
            created: boolean;
            ok: boolean;
            order: components["schemas"]["StandingOrder"];
        };
        OrderPinnedEvent: {
            /**
             * Format: int64
             * @description The position of the message that contains the order, if it is known.
             */
            fromSeq?: number;
            /**
             * @description discriminator enum property added by openapi-typescript
             * @enum {string}
             */
            name: "order:pinned";
            orderId: string;
            /** @description The id of the order that this one replaces. */
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
         * @description The author of a standing order.
         * @enum {string}
         */
        OrderSource: "user" | "model" | "summary" | "detected";
        /**
         * @description The state of a standing order.
         * @enum {string}
         */
        OrderState: "active" | "superseded" | "removed";
        /** @description The provider, API and name of a model. */
        Origin: {
            api: string;
            model: string;
            provider: string;
        };
        /**
         * @description The outcome of a tool call.
         * @enum {string}
         */
        Outcome: "completed" | "error" | "cancelled" | "interrupted";
        /** @description A part of a message. */
        Part: {
            /** @description The text as safe HTML, if the request asked for it. */
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
            /** @description The id of the order that the new one replaces. */
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
             * @description The tokens that the view would have (`context-overflow`).
             */
            tokens?: number;
            /** @description `urn:longhaul:problem:` and the code. */
            type: string;
            /**
             * Format: int64
             * @description The usable tokens of the window (`context-overflow`).
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
        /** @description A queued message. */
        QueueEntry: {
            id: string;
            /** @description The metadata that the client sent. */
            metadata?: components["schemas"]["MessageMetadata"];
            parts: components["schemas"]["Part"][];
            /**
             * Format: int64
             * @description The position in the queue, from 1.
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
            /** @description The messages that match a `query`, the best first. Absent if a handle was given. */
            hits?: components["schemas"]["RecallHit"][];
            sessionId: string;
            /** @description The original, or all hits as one text; empty if nothing matches. */
            text: string;
        };
        /** @description A message that matches the query. */
        RecallHit: {
            handle: string;
            /**
             * Format: int64
             * @description The position in the log.
             */
            seq: number;
            /** @description The speaker: `user`, `assistant`, `note`, or `result of TOOL`. */
            speaker: string;
            /** @description An excerpt with the matching words. */
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
         * @description An additional format of texts.
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
             * @description The tokens of the view now.
             */
            tokens: number;
        };
        Resumed: {
            /** @description A warning, if the session was created in another folder than the one in which its tools work now. */
            folderWarning?: string;
            ok: boolean;
            /** @description The reason why nothing was resumed. */
            reason?: string;
            resumed: boolean;
            sessionId: string;
            status: components["schemas"]["Status"];
        };
        ResumeRun: Record<string, never>;
        Retried: {
            ok: boolean;
            /** @description `true` if the session was waiting, so that an attempt was made at once. */
            retried: boolean;
            sessionId: string;
        };
        /**
         * @description The role of a message.
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
            runId: string;
            seq: number;
            sessionId: string;
            /** Format: int64 */
            steps: number;
            usage: components["schemas"]["TokenUsage"] | null;
        };
        /** @description The end of a run that failed, was cancelled, or reached a limit. */
        RunEnd: {
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            at: number;
            error?: components["schemas"]["Failed"];
            finishReason: components["schemas"]["FinishReason"];
            runId: string;
            /** Format: int64 */
            seq: number;
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
            runId: string;
            seq: number;
            sessionId: string;
        };
        RunWaiting: {
            /**
             * Format: int64
             * @description The number of the next attempt: 1 is the first repetition.
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
        /** @description The outcome of sending a message: taken at once, or queued for the next step. */
        Sent: components["schemas"]["SentNow"] | components["schemas"]["SentLater"];
        SentLater: {
            /** @description The message's id in the queue. */
            id: string;
            /** @description A text for people. */
            message: string;
            ok: boolean;
            /**
             * Format: int64
             * @description The position in the queue, from 1.
             */
            position: number;
            /** @enum {boolean} */
            queued: true;
            sessionId: string;
        };
        SentNow: {
            /** @description The message's id in the log. */
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
            /** @description The positions of damaged events, if there are any. The other fields describe the log before the first of them. */
            damaged?: number[];
            /** @description The reason why a damaged session cannot continue. */
            error?: components["schemas"]["Failed"];
            /** @description The folder in which the session was created, if it is known. */
            folder?: string;
            /** @description A warning, if the session was created in another folder than the one in which its tools work now. */
            folderWarning?: string;
            /** @description The origin of a fork. Only in the response that creates it. */
            forkedFrom?: components["schemas"]["ForkedFrom"];
            /** @description The action that makes the session continue. */
            goOn?: string;
            id: string;
            lastError?: components["schemas"]["Failed"];
            lastFinishReason?: components["schemas"]["FinishReason"];
            /**
             * Format: int64
             * @description The position of the log's newest event.
             */
            lastSeq: number;
            model: components["schemas"]["Origin"];
            /** @description The reason why the session is parked. */
            parked?: string;
            /**
             * Format: int64
             * @description The number of queued messages.
             */
            queued: number;
            status: components["schemas"]["Status"];
            title: string | null;
            tokenUsage: components["schemas"]["TokenUsage"];
            /** Format: int64 */
            updatedAt: number;
            /** @description The wait for the model's server. Only while the status is `waiting_for_server`. */
            waiting?: components["schemas"]["Waiting"];
        };
        /** @description A session in the list of sessions. */
        SessionBrief: {
            /**
             * Format: int64
             * @description Milliseconds since 1970.
             */
            createdAt: number;
            id: string;
            lastError?: components["schemas"]["Failed"];
            /** @description The finish reason of the newest run. Absent during a run, and if the end is not among the newest events. */
            lastFinishReason?: components["schemas"]["FinishReason"];
            /**
             * Format: int64
             * @description The position of the log's newest event.
             */
            lastSeq: number;
            /**
             * Format: int64
             * @description The number of queued messages.
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
        /** @description The current settings. */
        Settings: {
            allowed: components["schemas"]["SettingsAllowed"];
            autoRecall: boolean;
            pruningAgent: string;
            sources: components["schemas"]["SettingsSources"];
            /** @description The names of all strategies. */
            strategies: string[];
            strategy: string;
            summarizeWith: string;
            trigger: components["schemas"]["SettingsTrigger"] | null;
        };
        /** @description The values to choose from: strategies and triggers by name, agents and models by `value`. */
        SettingsAllowed: {
            autoRecall: boolean[];
            pruningAgent: components["schemas"]["AllowedName"][];
            strategy: string[];
            summarizeWith: components["schemas"]["AllowedName"][];
            /** @description A trigger by name. `none` means the strategy's own trigger. */
            trigger: string[];
        };
        /** @description The settings to change. An absent key keeps its value, and `null` returns it to the agent file. */
        SettingsChange: {
            autoRecall?: boolean | null;
            /** @description `__same__`, an agent or a model. */
            pruningAgent?: string | null;
            strategy?: string | null;
            /** @description `same`, `extract` or a model. */
            summarizeWith?: string | null;
            trigger?: components["schemas"]["SettingsTrigger"] | null;
        };
        /** @description The source of each value: `default`, `agent-file` or `settings`. */
        SettingsSources: {
            autoRecall: string;
            pruningAgent: string;
            strategy: string;
            summarizeWith: string;
            trigger: string;
        };
        /** @description The trigger of a strategy. */
        SettingsTrigger: {
            /**
             * Format: double
             * @description A share of the window, above 0 and at most 1.
             */
            percentage?: number | null;
            /** Format: int64 */
            triggerTokens?: number | null;
            /** @description `threshold` (the default), or `overflow`, `planner` or `manual`, which take no number. */
            type?: string | null;
        };
        /**
         * @description The source of a message.
         * @enum {string}
         */
        Source: "typed" | "note" | "summary" | "model";
        /** @description The partial output of one kind. */
        Spoken: {
            text: string;
            type: components["schemas"]["Voice"];
        };
        /** @description An instruction that holds beyond the next answer. */
        StandingOrder: {
            /**
             * Format: int64
             * @description The position of the message that contains the order, if it is known.
             */
            fromSeq?: number;
            id: string;
            /**
             * Format: int64
             * @description The position of the event that pinned the order.
             */
            seq: number;
            source: components["schemas"]["OrderSource"];
            state: components["schemas"]["OrderState"];
            /** @description The id of the order that replaces this one. */
            supersededBy?: string;
            text: string;
        };
        /**
         * @description The status of a session.
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
            /** @description `true` if the edit has a summary that passed the check; `false` for an extract. */
            checked: boolean;
            /** @description The reasons why earlier answers were refused, oldest first. */
            reasons: string[];
        };
        /** @description The number of facts that an edit keeps, by class. */
        Survival: {
            classes: {
                [key: string]: components["schemas"]["Tally"];
            };
        };
        SwitchedModel: {
            /** @description The model in the log. With `next-step` it is still the previous one. */
            model: components["schemas"]["Origin"];
            ok: boolean;
            sessionId: string;
            when: components["schemas"]["When"];
        };
        /** @description The agent, the model, or both. */
        SwitchModel: {
            /** @description The name of a configured agent. Without it, the session keeps its agent. */
            agent?: string | null;
            /** @description A model of a configured agent, or one that the default agent's server lists. Without it, the agent's own model. */
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
             * @description All input tokens, cache reads and writes included.
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
            /** @description The arguments as JSON, or `null` if the model wrote invalid JSON. */
            args: unknown;
            /** @description The arguments as text, as the model wrote them. */
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
            /** @description The arguments as JSON, or `null` if the model wrote invalid JSON. */
            args: unknown;
            /** @description The arguments as text, as the model wrote them. */
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
        /** @description The part of a tool result that the model sees. The blob has the whole. */
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
        /** @description The request of the AI SDK's `DefaultChatTransport`. Other fields are ignored. */
        UiChat: {
            /** @description For a new chat: the name of a configured agent. Without it, the default agent. */
            agent?: string | null;
            /** @description The chat: a session's id, or any name of up to 500 characters. */
            id: string;
            message?: components["schemas"]["UiMessage"] | null;
            /** @description The messages of the client. Only the newest one is used. */
            messages?: components["schemas"]["UiMessage"][];
            /** @description `submit-message`, or `regenerate-message` to continue after an error. */
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
         * @description The outcome that an undo would have now. `built-on` means that a later edit must be undone first.
         * @enum {string}
         */
        UndoNow: "possible" | "undone" | "built-on" | "no-room";
        /** @description Details of a picture or file that the model does not accept. */
        UnsupportedDetails: {
            name: string | null;
        };
        /** @description Stored content. */
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
        /** @description The part that refers to the content in a message. */
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
             * @description The number of the next attempt: 1 is the first repetition.
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
         * @description The reason why a model call is repeated.
         * @enum {string}
         */
        WaitReason: "outage" | "rate-limit" | "broken-answer" | "refusal";
        /**
         * @description The time when the switch takes effect.
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
            /** @description The content is unchanged. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is invalid. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description A stream in which each `data:` is one AG-UI event. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["AgUiEvent"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The queued messages. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Approvals"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description A redirect to the page that sets the cookie. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
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
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The cookie is removed. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Done"];
                };
            };
            /** @description The request is invalid. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description The message was taken or queued. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Sent"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The HTML of each text, in the order of the request. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rendered"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
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
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description The most hits: 20 by default, at most 100. */
                limit?: number;
                /** @description The words to search for. A hit contains all of them. */
                q: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The messages and titles that contain all words, and whether the search was complete. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Found"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The bytes. Pictures have their media type. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description What was stopped. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Cancelled"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description The outcome of the compaction, or its plan. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Compacted"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description The position after which events are sent. 0 sends all. */
                after?: number;
            };
            header?: {
                /** @description The `id` of the last received event. Takes precedence over `after`. */
                "Last-Event-ID"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A stream of events. `data:` is one `Event`, `event:` its name and `id:` its position. `3` is the whole of event 3, `3.1` the first of several announcements of event 3. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["Event"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The file. Damaged events are left out; the header `x-longhaul-damaged-events` lists their positions. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                    "text/markdown": string;
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description The switch was made, or will be made at the next step. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SwitchedModel"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description Only messages after this position. Not together with `before`. */
                after?: number;
                /** @description Only messages before this position. */
                before?: number;
                /** @description The most messages of the page: 100 by default, at most 500. */
                limit?: number;
                /** @description `html` adds safe HTML to the texts of models. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description `true` also returns removed and superseded orders. */
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
            /** @description The active orders. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Orders"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description An active order with this text exists already. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The original or the hits. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Recalled"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description Whether a run was resumed. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Resumed"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description Whether an attempt was made at once. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Retried"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The new settings. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Settings"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
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
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
                /** @description An idempotency key: a repeated request with the same key has no effect and gets the first response. */
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
            /** @description A stream in which each `data:` is one part, and the last is `[DONE]`. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["UiPart"];
                };
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request body did not arrive in time. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
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
            /** @description The idempotency key belongs to another request, or the request was refused. */
            422: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description A stream in which each `data:` is one part, and the last is `[DONE]`. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["UiPart"];
                };
            };
            /** @description No answer is being written. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The server is running. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description A redirect to the page. */
            303: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is invalid. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The request is invalid. */
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
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
            /** @description The server can accept work. */
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
                /** @description The path of the file. */
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
            /** @description The content is unchanged. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description The request is invalid. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The host name, or the origin of the page, is not allowed. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The named resource does not exist. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description The request conflicts with the current state. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too many requests. `Retry-After` tells when to try again. */
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
