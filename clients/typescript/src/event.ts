/** What happens in a session, by name. Events with a `seq` are stored; the others pass by. */

import type { CompactionReason, Decision, FinishReason, Origin, Part, QueueEntry, ResultStatus, Role, Survival, TokenUsage } from "./types.js";

interface Named<Name extends string> {
  name: Name;
  sessionId: string;
}

type Stored<Name extends string, Payload = unknown> = Named<Name> & { seq: number; runId?: string } & Payload;

type Passing<Name extends string, Payload = unknown> = Named<Name> & { seq?: undefined } & Payload;

/** The meter, in short. */
export interface ContextUsage {
  total: number;
  window: number;
  percent: number;
  outputReserve: number;
  freeSpace: number;
  expectedError: number;
  estimated: number;
  compactionCount: number;
}

export type MessageAdded = Stored<
  "message:added",
  {
    messageId: string;
    role: Role;
    /** A person, the runtime, an imported summary, or the model wrote it. */
    source: "typed" | "note" | "summary" | "model";
    parts: Part[];
    /** More of this answer follows. */
    paused?: true;
    /** The message that this piece goes on with. */
    continues?: string;
  }
>;
export type MessageDequeued = Stored<"message:dequeued", { count: number; ids: string[]; coalesced: boolean }>;
export type RunStarted = Stored<"run:started", { runId: string }>;
export type RunComplete = Stored<
  "run:complete",
  {
    runId: string;
    finishReason: FinishReason;
    steps: number;
    usage: TokenUsage | null;
    error?: { code: string; message: string };
  }
>;
export type SessionParked = Stored<"session:parked", { reason: string; goOn: string }>;
export type LlmThinking = Stored<"llm:thinking", { runId: string }>;
export type LlmResponse = Stored<
  "llm:response",
  { stepId: string; content: string; reasoning?: string; provider: string; model: string; router?: string; tokenUsage?: TokenUsage }
>;
export type LlmToolCall = Stored<"llm:tool-call", { stepId: string; callId: string; toolName: string; args: string }>;
export type LlmToolResult = Stored<
  "llm:tool-result",
  {
    callId: string;
    toolName: string;
    success: boolean;
    status: ResultStatus;
    sanitized: Part[];
    truncated: boolean;
    omittedChars?: number;
    totalChars?: number;
  }
>;
/** Without a `seq` it is an attempt that is repeated. */
export type LlmError = Named<"llm:error"> & {
  seq?: number;
  runId?: string;
  error: string;
  code: string;
  context: { stepId?: string; attempt?: number; retryAfterMs?: number };
  recoverable: boolean;
};
export type LlmSwitched = Stored<"llm:switched", { newConfig: Origin; router?: string; historyRetained: boolean }>;
export type ToolStarted = Stored<"tool:started", { callId: string }>;
export type ApprovalRequest = Stored<
  "tool:approval-request",
  { approvalId: string; callId: string; toolName: string | null; args: string | null }
>;
export type ApprovalResponse = Stored<"tool:approval-response", { approvalId: string; decision: Decision }>;
export type ContextUsageEvent = Stored<"context:usage", ContextUsage>;
export type ContextEstimate = Stored<"context:estimate", { estimated: number; actual: number; errorPercent: number }>;
export type ContextPruned = Stored<
  "context:pruned",
  { compactionId: string; prunedCount: number; savedTokens: number; originalTokens: number; compressedTokens: number }
>;
export type ContextCompressed = Stored<
  "context:compressed",
  {
    compactionId: string;
    strategy: string;
    reason: CompactionReason;
    trigger: number | null;
    originalTokens: number;
    compressedTokens: number;
    originalMessages: number;
    compressedMessages: number;
    survival: Survival | null;
    costNote: string;
  }
>;
export type CompactFailed = Stored<"context:compact-failed", { strategy: string; code: string; reason: string }>;
export type ContextRestored = Stored<"context:restored", { compactionId: string; tokens: number }>;

export type LlmChunk = Passing<
  "llm:chunk",
  {
    stepId: string;
    messageId: string;
    chunkType: "text" | "reasoning";
    content: string;
    /** Where it begins in the text, or the reasoning, of its message: in Unicode code points. */
    offset: number;
    isComplete?: boolean;
  }
>;
export type LlmToolInput = Passing<"llm:tool-input", { stepId: string; index: number; toolName: string | null; delta: string }>;
export type LlmUnsupportedInput = Passing<
  "llm:unsupported-input",
  { errors: string[]; provider: string; model?: string; fileType?: string; details?: { name: string | null } }
>;
/** The answer in flight as far as it has come: it takes the place of the chunks before. */
export type LlmSnapshot = Passing<
  "llm:snapshot",
  {
    stepId: string;
    messageId: string;
    parts: { type: "text" | "reasoning"; text: string }[];
    offset: number;
    reasoningOffset: number;
  }
>;
export type ToolOutput = Passing<"tool:output", { callId: string; text: string; offset: number }>;
export type ContextCompacting = Passing<
  "context:compacting",
  { strategy: string; reason: CompactionReason; trigger: number | null }
>;
export type MessageQueued = Passing<"message:queued", { id: string; position: number }>;
export type MessageEdited = Passing<"message:edited", { id: string }>;
export type MessageRemoved = Passing<"message:removed", { id: string }>;
export type QueueSnapshot = Passing<"queue:snapshot", { entries: QueueEntry[] }>;
/** What cannot be had again. */
export type StreamGap = Passing<"stream:gap", { from: number; to: number }>;

export type StoredEvent =
  | MessageAdded
  | MessageDequeued
  | RunStarted
  | RunComplete
  | SessionParked
  | LlmThinking
  | LlmResponse
  | LlmToolCall
  | LlmToolResult
  | LlmError
  | LlmSwitched
  | ToolStarted
  | ApprovalRequest
  | ApprovalResponse
  | ContextUsageEvent
  | ContextEstimate
  | ContextPruned
  | ContextCompressed
  | CompactFailed
  | ContextRestored;

export type PassingEvent =
  | LlmChunk
  | LlmToolInput
  | LlmUnsupportedInput
  | LlmSnapshot
  | ToolOutput
  | ContextCompacting
  | MessageQueued
  | MessageEdited
  | MessageRemoved
  | QueueSnapshot
  | StreamGap;

/** Told apart by `name`. A newer server may tell of more: leave room for names that are not listed. */
export type LonghaulEvent = StoredEvent | PassingEvent;

export type EventName = LonghaulEvent["name"];

/** The event of that name. */
export type EventOf<Name extends EventName> = Extract<LonghaulEvent, { name: Name }>;
