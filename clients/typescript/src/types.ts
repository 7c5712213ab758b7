/** What requests carry and answers bring. Tokens are counts, times milliseconds since 1970, positions (`seq`) count a session's events from 1. */

import type { Narrowed, Shape } from "./shape.js";

export type SessionStatus = Shape<"Status">;
export type FinishReason = Shape<"FinishReason">;
export type Role = Shape<"Role">;
export type TokenUsage = Shape<"TokenUsage">;
/** Who answered: `provider` serves `model` over `api`. */
export type Origin = Shape<"Origin">;

export type SessionSummary = Shape<"SessionBrief">;
export type Session = Shape<"Session">;
export type ForkedFrom = Shape<"ForkedFrom">;
export type ForkedSession = Session & { forkedFrom: ForkedFrom };
export type Deleted = Shape<"Deleted">;

export type BlobRef = Shape<"BlobRef">;
export type Media = Shape<"Media">;
/** What was left out of a tool's output; `blob` is the whole. */
export type Truncation = Shape<"Truncation">;
export type ResultStatus = Shape<"Outcome">;
export type Part = Shape<"Part">;
/** The part of that type. */
export type PartOf<Type extends Part["type"]> = Extract<Part, { type: Type }>;

/** A picture or a file to send: its bytes in base64, or the hash of what was uploaded. */
export type MediaInput = { type: "image" | "file" } & (
  | { data: string; mediaType: string; name?: string }
  | { blob: string | BlobRef; mediaType?: string; name?: string | null }
);
export type ContentPart = Narrowed<"GivenPart", { type: "text"; text: string } | MediaInput>;
/** Data of the client's own, kept with a message. */
export type MessageMetadata = Shape<"MessageMetadata">;
/** What a message says. */
export type Content = string | ContentPart[];

export interface SendMessage {
  /** A new session if none is named. */
  sessionId?: string;
  content: Content;
  /** Kept and shown with the message, never shown to the model: at most 16 KiB of JSON. */
  metadata?: MessageMetadata;
}

/** Either the message begins a run, or it waits at `position` and is taken at the next step. */
export type Sent = Narrowed<
  "Sent",
  | { ok: true; queued: false; sessionId: string; messageId: string }
  | { ok: true; queued: true; sessionId: string; id: string; position: number; message: string }
>;

export type QueueEntry = Shape<"QueueEntry">;
export type Queue = Shape<"Queue">;
export type QueueChanged = Shape<"QueueChanged">;
export type QueueCleared = Shape<"QueueCleared">;

export type ShownCall = Shape<"ToolCall">;
export type Message = Shape<"Message">;
export type MessagesPage = Shape<"Messages">;

export type ContextReport = Shape<"Context">;

export type Cancelled = Shape<"Cancelled">;
export type Resumed = Shape<"Resumed">;
export type Retried = Shape<"Retried">;

export type Strategy =
  | "reactive-overflow"
  | "proactive-threshold"
  | "middle-removal"
  | "truncation"
  | "importance"
  | "summarization"
  | "pruning-agent"
  | "adaptive";

export type CompactRequest = Narrowed<
  "CompactRequest",
  {
    /** The configured one if none is named. */
    strategy?: Strategy;
    instructions?: string;
  }
>;

export type Tally = Shape<"Tally">;
/** What an edit of the view leaves of the facts that the model was shown before it, by class: `userConstraints`, `decisions`, `paths`, `identifiers`, `errorLines`, `numbers`. */
export type Survival = Shape<"Survival">;
export type CompactionReason = Shape<"EditReason">;
export type Compaction = Shape<"Compaction">;

export type Compacted = Narrowed<
  "Compacted",
  { ok: true; compacted: true; compaction: Compaction } | { ok: true; compacted: false; reason: string }
>;

interface Surveyed {
  survival?: Survival;
  /** The report counts the view without the summary that would be written. */
  survivalWithoutSummary?: boolean;
}

export type CompactionPlan = Narrowed<
  "CompactionPlan",
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
    } & Surveyed)
>;

export type CompactionPreview = Narrowed<"Compacted", { ok: true; dryRun: true; plan: CompactionPlan }>;

export type Undone = Shape<"Restored">;
export type Released = Shape<"Released">;
export type StandingOrder = Shape<"StandingOrder">;
export type PinOrder = Shape<"PinOrder">;
export type OrderPinned = Shape<"OrderPinned">;
export type OrderChanged = Shape<"OrderChanged">;

/** The exact original, by `handle` (`lh:12`, `lh:12-40`), or what matches a `query`. */
export type RecallRequest = { handle: string; range?: string } | { query: string; limit?: number };
export type Recalled = Shape<"Recalled">;

/** Stored content; `part` is what a message names it with. */
export type StoredBlob = Narrowed<
  "Uploaded",
  Shape<"Uploaded"> & { part: { type: "image" | "file" } }
>;

/** A tool that asks whether it may run. `approvalId` names the question on the whole server. */
export type Approval = Shape<"Approval">;
export type Decision = Shape<"Decided">;
export type Decided = Shape<"ApprovalDecided">;
