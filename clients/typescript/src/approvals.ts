import type { CallOptions, WorkOptions } from "./call.js";
import { newKey, type Transport } from "./http.js";
import type { Approval, Decided, Decision } from "./types.js";

export interface DecideOptions extends WorkOptions {
  /** For the model; at most 2,000 characters. */
  reason?: string;
  /** Needed only with the short name of a question. */
  sessionId?: string;
}

/** Tools that ask whether they may run. */
export class Approvals {
  constructor(private readonly transport: Transport) {}

  /** The questions that wait, of one session or of all. */
  async list(options: { sessionId?: string } & CallOptions = {}): Promise<Approval[]> {
    const { sessionId, signal } = options;
    const call = { method: "GET", path: ["api", "approvals"], query: { sessionId }, signal } as const;
    return (await this.transport.json<{ approvals: Approval[] }>(call)).approvals;
  }

  decide(approvalId: string, decision: Decision, options: DecideOptions = {}): Promise<Decided> {
    const { reason, sessionId, signal, idempotencyKey = newKey() } = options;
    const json = { decision, reason, sessionId };
    return this.transport.json({ method: "POST", path: ["api", "approvals", approvalId], json, idempotencyKey, signal });
  }
}
