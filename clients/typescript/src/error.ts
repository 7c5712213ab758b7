import type { Shape } from "./shape.js";

/** Codes that the server gives, and three of the client's own: `unreachable` (no answer came), `unexpected-answer` (it was not the server's) and `not-taken` (what was asked waits, or was removed). */
export type ErrorCode = Shape<"ProblemCode"> | "not-taken" | "unexpected-answer" | "unreachable";

export interface LonghaulErrorInit {
  code: ErrorCode | (string & {});
  /** The HTTP status; 0 if there was no answer. */
  status: number;
  detail: string;
  title?: string | undefined;
  retryAfterMs?: number | undefined;
  problem?: Readonly<Record<string, unknown>>;
  cause?: unknown;
}

/** Why a request was not done. */
export class LonghaulError extends Error {
  override readonly name = "LonghaulError";
  /** Stable: what programs decide on. */
  readonly code: ErrorCode | (string & {});
  readonly status: number;
  /** For people. */
  readonly detail: string;
  readonly title: string | undefined;
  /** When the server would be asked again. */
  readonly retryAfterMs: number | undefined;
  /** The whole problem document (RFC 9457), with the figures that some codes bring. */
  readonly problem: Readonly<Record<string, unknown>>;

  constructor(init: LonghaulErrorInit) {
    super(`${init.detail} (${init.code}${init.status ? `, ${init.status}` : ""})`, { cause: init.cause });
    this.code = init.code;
    this.status = init.status;
    this.detail = init.detail;
    this.title = init.title;
    this.retryAfterMs = init.retryAfterMs;
    this.problem = init.problem ?? {};
  }
}

/** The error that an answer which is not `ok` means. Its body is read. */
export async function refusal(response: Response, now: number): Promise<LonghaulError> {
  const retryAfterMs = retryAfter(response.headers.get("retry-after"), now);
  const text = await response.text().catch(() => "");
  const problem = parsed(text);
  if (problem && typeof problem["code"] === "string") {
    const { code, detail, title } = problem;
    return new LonghaulError({
      code: code as string,
      status: response.status,
      detail: typeof detail === "string" ? detail : response.statusText,
      title: typeof title === "string" ? title : undefined,
      retryAfterMs,
      problem,
    });
  }
  const detail = `The answer is not a problem document of Longhaul: ${response.status} ${response.statusText}`.trim();
  return new LonghaulError({ code: "unexpected-answer", status: response.status, detail, retryAfterMs });
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return value !== null && typeof value === "object" ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** `Retry-After` in milliseconds from `now`: it has seconds, or a date. */
export function retryAfter(value: string | null, now: number): number | undefined {
  if (value === null) return undefined;
  if (/^\s*\d+\s*$/.test(value)) return Number(value) * 1_000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
