import type { CallOptions } from "./call.js";
import type { Transport } from "./http.js";
import type { StoredBlob } from "./types.js";

export interface Upload extends CallOptions {
  name?: string;
  /** Unless it is said: a `Blob`'s own type, else `application/octet-stream`. */
  mediaType?: string;
}

/** Stored content: pictures, files, long outputs. */
export class Blobs {
  constructor(private readonly transport: Transport) {}

  /** Stores content. A message names it with the answer's `part`. */
  upload(sessionId: string, bytes: Uint8Array<ArrayBuffer> | ArrayBuffer | Blob, options: Upload = {}): Promise<StoredBlob> {
    const { name, signal } = options;
    const own = bytes instanceof Blob && bytes.type ? bytes.type : "application/octet-stream";
    return this.transport.json({
      method: "POST",
      path: ["api", "sessions", sessionId, "blobs"],
      query: { name },
      bytes,
      headers: { "content-type": options.mediaType ?? own },
      // It is named by its hash.
      repeatable: true,
      signal,
    });
  }

  /** The bytes of what the session's log names. A type is only given for pictures. */
  download(sessionId: string, hash: string, { signal }: CallOptions = {}): Promise<Blob> {
    const path = ["api", "sessions", sessionId, "blobs", hash];
    return this.transport.send({ method: "GET", path, signal }, (response) => response.blob());
  }
}
