/** What requests carry and answers bring. Tokens are counts, times milliseconds since 1970, positions (`seq`) count a session's events from 1. */

export type SessionStatus = "idle" | "streaming" | "executing_tools" | "waiting_approval" | "compacting" | "parked";

export type FinishReason = "stop" | "max-steps" | "cancelled" | "timeout" | "loop-detected" | "length" | "error";

export type Role = "user" | "assistant" | "tool";

export interface TokenUsage {
  inputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  totalTokens: number;
}

/** Who answered: `provider` serves `model` over `api`. */
export interface Origin {
  provider: string;
  api: string;
  model: string;
}

export interface SessionSummary {
  id: string;
  title: string | null;
  createdAt: number;
  updatedAt: number;
  lastSeq: number;
  /** Messages that wait. */
  queued: number;
  status: SessionStatus;
}

export interface Session extends SessionSummary {
  /** Of all model calls together: for display and cost. */
  tokenUsage: TokenUsage;
  compactionCount: number;
  model: Origin;
  lastFinishReason?: FinishReason;
  /** Why the session is parked, and how it goes on. */
  parked?: string;
  goOn?: string;
}

export interface ForkedSession extends Session {
  forkedFrom: { sessionId: string; atSeq: number } | null;
}

export interface BlobRef {
  hash: string;
  bytes: number;
}

export interface Media {
  blob: BlobRef;
  mediaType: string;
  name?: string;
  width?: number;
  height?: number;
}

export interface TextPart {
  type: "text";
  text: string;
  native?: string;
}

export interface ReasoningPart {
  type: "reasoning";
  text: string;
  native?: string;
}

export interface ToolCallPart {
  type: "tool-call";
  call_id: string;
  name: string;
  /** JSON, as the model wrote it. */
  arguments: string;
  provider_id?: string;
  native?: string;
}

export type ResultStatus = "completed" | "error" | "cancelled" | "interrupted";

/** What was left out of a tool's output; `blob` is the whole. */
export interface Truncation {
  headBytes: number;
  omittedChars: number;
  totalChars: number;
  blob: BlobRef;
  lostBytes: number;
}

export interface ToolResultPart {
  type: "tool-result";
  call_id: string;
  status: ResultStatus;
  content: Part[];
  truncated?: Truncation;
}

export type ImagePart = { type: "image" } & Media;

export type FilePart = { type: "file" } & Media;

/** What only its provider understands. */
export interface OpaquePart {
  type: "opaque";
  kind: string;
  native: string;
}

export type Part = TextPart | ReasoningPart | ToolCallPart | ToolResultPart | ImagePart | FilePart | OpaquePart;

/** A picture or a file to send: its bytes in base64, or the hash of what was uploaded. */
export type MediaInput = { type: "image" | "file" } & (
  | { data: string; mediaType: string; name?: string }
  | { blob: string | { hash: string }; mediaType?: string; name?: string | null }
);

export type ContentPart = { type: "text"; text: string } | MediaInput;

/** What a message says. */
export type Content = string | ContentPart[];

export interface SendMessage {
  /** A new session if none is named. */
  sessionId?: string;
  content: Content;
}

/** Either the message begins a run, or it waits at `position` and is taken at the next step. */
export type Sent =
  | { ok: true; queued: false; sessionId: string; messageId: string }
  | { ok: true; queued: true; sessionId: string; id: string; position: number; message: string };

export interface QueueEntry {
  id: string;
  /** From 1. */
  position: number;
  queuedAt: number;
  parts: Part[];
}

export interface Queue {
  sessionId: string;
  count: number;
  entries: QueueEntry[];
}

export interface QueueChanged {
  ok: true;
  id: string;
  sessionId: string;
}

export interface QueueCleared {
  ok: true;
  sessionId: string;
  removed: string[];
}

export interface ShownCall {
  callId: string;
  toolName: string;
  args: string;
  status: ResultStatus | "pending" | "running" | null;
}

export interface Message {
  id: string;
  seq: number;
  at: number | null;
  role: Role;
  parts: Part[];
  model?: Origin;
  reasoning?: string;
  reasoningMetadata?: string[];
  tokenUsage?: TokenUsage;
  toolCalls?: ShownCall[];
  /** Of a tool's result. */
  toolName?: string;
  callId?: string;
  status?: ResultStatus;
  truncated?: boolean;
  /** The runtime wrote it. */
  isNote?: true;
  isSummary?: true;
  /** Why the answer is not whole: the model sees what was `cancelled`, not what was `lost`. */
  interrupted?: "cancelled" | "lost" | "paused";
  /** When a compaction took it from the model's view. */
  summarizedAt?: number | null;
  /** When a prune or compaction took the tool's result from the model's view. */
  compactedAt?: number | null;
}

export interface MessagesPage {
  messages: Message[];
  hasMore: boolean;
  /** For the next page forwards, and backwards. */
  after: number | null;
  before: number | null;
}

export interface ContextReport {
  total: number;
  window: number;
  percent: number;
  systemPrompt: number;
  tools: { source: string; tokens: number }[];
  messages: { total: number; text: number; toolResults: number; reasoning: number; media: number };
  framing: number;
  /** Tool results shown as placeholders. */
  pruned: number;
  /** Messages shown as summaries or notes. */
  compacted: number;
  deferredTools: number;
  outputReserve: number;
  freeSpace: number;
  thresholds: { name: string; tokens: number }[];
  basis: {
    lastInputTokens: number | null;
    lastOutputTokens: number | null;
    newMessagesEstimate: number;
    lastErrorPercent: number | null;
  };
  tokenUsage: TokenUsage;
  compactionCount: number;
  source: string;
  counter: string;
  windowSource: string;
  expectedError: number;
}

export interface Cancelled {
  ok: true;
  cancelled: boolean;
  /** What was kept of the work that was cut short. */
  persisted: "partial_assistant" | "tools_in_progress" | null;
}

export interface Resumed {
  ok: true;
  sessionId: string;
  status: SessionStatus;
  resumed: boolean;
  /** Why no run began. */
  reason?: string;
}

export type Strategy =
  | "reactive-overflow"
  | "proactive-threshold"
  | "middle-removal"
  | "truncation"
  | "importance"
  | "summarization"
  | "pruning-agent"
  | "adaptive";

export interface CompactRequest {
  /** The configured one if none is named. */
  strategy?: Strategy;
  instructions?: string;
}

export interface Tally {
  verbatim: number;
  recoverableByModel: number;
  recoverableByUser: number;
  lost: number;
}

/** What an edit of the view leaves of the facts that the model was shown before it, by class. */
export interface Survival {
  classes: Partial<Record<"userConstraints" | "decisions" | "paths" | "identifiers" | "errorLines" | "numbers", Tally>>;
}

export interface Compaction {
  id: string;
  seq: number;
  kind: "prune" | "compaction";
  strategy: string;
  reason: CompactionReason;
  trigger: number | null;
  why: string;
  /** Not undone. */
  active: boolean;
  released: boolean;
  originalTokens: number;
  compressedTokens: number;
  originalMessages: number;
  compressedMessages: number;
  handles: string[];
  survival?: Survival;
}

export type CompactionReason = "token_limit" | "overflow_error" | "model_switch" | "requested";

export type Compacted =
  | { ok: true; compacted: true; compaction: Compaction | null }
  | { ok: true; compacted: false; reason: string };

interface Surveyed {
  survival?: Survival;
  /** The report counts the view without the summary that would be written. */
  survivalWithoutSummary?: boolean;
}

export type CompactionPlan =
  | ({ action: "nothing"; why: string } & Surveyed)
  | ({
      action: "edit";
      kind: "prune" | "compaction";
      strategy: string;
      why: string;
      originalTokens: number;
      compressedTokens: number;
      originalMessages: number;
      compressedMessages: number;
      clearedResults: number;
      handles: string[];
    } & Surveyed)
  | ({
      action: "summarise";
      strategy: string;
      messages: number;
      originalTokens: number;
      floorTokens: number;
      summaryTokens: number;
      clearedResults: number;
      handles: string[];
    } & Surveyed);

export interface CompactionPreview {
  ok: true;
  dryRun: true;
  plan: CompactionPlan;
}

export interface Undone {
  ok: true;
  compactionId: string;
  /** The view's size now. */
  tokens: number;
}

export interface Released {
  ok: true;
  compactionId: string;
}

/** The exact original, by `handle` (`lh:12`, `lh:12-40`), or what matches a `query`. */
export type RecallRequest = { handle: string; range?: string } | { query: string; limit?: number };

export interface Recalled {
  sessionId: string;
  text: string;
}

export interface StoredBlob {
  hash: string;
  bytes: number;
  mediaType: string;
  name: string | null;
  width: number | null;
  height: number | null;
  /** What a message names it with. */
  part: { type: "image" | "file"; blob: BlobRef; mediaType: string; name: string | null };
}

export interface Approval {
  /** One name on the whole server. */
  approvalId: string;
  sessionId: string;
  callId: string;
  toolName: string;
  /** JSON, as the model wrote it. */
  args: string;
}

export type Decision = "allow" | "deny";

export interface Decided {
  ok: true;
  approvalId: string;
  sessionId: string;
  decision: Decision;
}

export interface Deleted {
  ok: true;
  id: string;
}
