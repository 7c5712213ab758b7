/** What happens in a session, by name. Events with a `seq` are stored; the others pass by. */

import type { Schemas, Shape, Told } from "./shape.js";

type Described = Told<Schemas["Event"]>;

/** Told of a picture or a file that the model is not shown. */
export interface LlmUnsupportedInput {
  name: "llm:unsupported-input";
  sessionId: string;
  errors: string[];
  provider: string;
  model?: string;
  fileType?: string;
  details?: { name: string | null };
}

/** One that passes by has no place in the log. */
type Placed<T> = T extends { seq?: number } ? T : T & { seq?: undefined; runId?: undefined };

/** Told apart by `name`. A newer server may tell of more: leave room for names that are not listed. */
export type LonghaulEvent = Placed<Described | LlmUnsupportedInput>;

export type EventName = LonghaulEvent["name"];

/** The event of that name. */
export type EventOf<Name extends EventName> = Extract<LonghaulEvent, { name: Name }>;

export type StoredEvent = Extract<LonghaulEvent, { seq: number }>;
export type PassingEvent = Exclude<LonghaulEvent, { seq: number }>;

/** The meter, in short. */
export type ContextUsage = Shape<"ContextUsage">;
export type MessageAdded = EventOf<"message:added">;
export type RunComplete = EventOf<"run:complete">;
export type LlmChunk = EventOf<"llm:chunk">;
export type LlmSnapshot = EventOf<"llm:snapshot">;
export type ApprovalRequest = EventOf<"tool:approval-request">;
