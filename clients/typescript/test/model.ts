/** A model server that speaks OpenAI's Chat Completions, and says what the test tells it to. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Request {
  model: string;
  messages: { role: string; content?: unknown; tool_calls?: unknown }[];
  tools?: unknown[];
}

/** A piece of an answer: text, reasoning, a call, or something to wait for. */
export type Piece =
  | string
  | { reasoning: string }
  | { call: string; args: object }
  | { wait: Promise<unknown> };

export type Script = (request: Request) => Iterable<Piece>;

export class Model {
  readonly requests: Request[] = [];
  readonly #server: Server;

  private constructor(public script: Script) {
    this.#server = createServer((request, response) => void this.#serve(request, response).catch(() => response.destroy()));
  }

  static async start(script: Script): Promise<Model> {
    const model = new Model(script);
    await new Promise<void>((ready) => model.#server.listen(0, "127.0.0.1", ready));
    return model;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((stopped) => this.#server.close(stopped));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    if (request.url === "/v1/models") {
      return json(response, 200, { object: "list", data: [{ id: "mock", object: "model" }] });
    }
    if (request.url !== "/v1/chat/completions") return json(response, 404, { error: { message: "no such route" } });
    const asked = JSON.parse(Buffer.concat(pieces).toString("utf8")) as Request & { stream?: boolean };
    this.requests.push(asked);
    if (asked.stream) await this.#stream(asked, response);
    else this.#whole(asked, response);
  }

  async #stream(asked: Request, response: ServerResponse): Promise<void> {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const chunk = (choices: object[], more: object = {}) =>
      response.write(`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "mock", choices, ...more })}\n\n`);
    let [calls, finish, said] = [0, "stop", 0];
    for (const piece of this.script(asked)) {
      if (response.destroyed) return;
      const delta = await this.#delta(piece, calls);
      if (!delta) continue;
      if ("tool_calls" in delta) [calls, finish] = [calls + 1, "tool_calls"];
      said += 1;
      chunk([{ index: 0, delta, finish_reason: null }]);
    }
    chunk([{ index: 0, delta: {}, finish_reason: finish }]);
    chunk([], { usage: usage(asked, said) });
    response.end("data: [DONE]\n\n");
  }

  async #delta(piece: Piece, index: number): Promise<object | undefined> {
    if (typeof piece === "string") return { content: piece };
    if ("wait" in piece) return void (await piece.wait);
    if ("reasoning" in piece) return { reasoning_content: piece.reasoning };
    const call = { name: piece.call, arguments: JSON.stringify(piece.args) };
    return { tool_calls: [{ index, id: `call-${this.requests.length}-${index}`, type: "function", function: call }] };
  }

  #whole(asked: Request, response: ServerResponse): void {
    const text = [...this.script(asked)].filter((piece) => typeof piece === "string").join("");
    const message = { role: "assistant", content: text };
    json(response, 200, { id: "c", object: "chat.completion", model: "mock", choices: [{ index: 0, message, finish_reason: "stop" }], usage: usage(asked, 1) });
  }
}

function usage(asked: Request, said: number): object {
  const prompt = Math.ceil(JSON.stringify([asked.messages, asked.tools]).length / 4);
  return { prompt_tokens: prompt, completion_tokens: said, total_tokens: prompt + said };
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

/** Something that a test lets happen. */
export class Gate {
  open!: () => void;
  readonly opened = new Promise<void>((resolve) => (this.open = resolve));
}

/** The text of the newest message. */
export function newest(request: Request): string {
  const content = request.messages.at(-1)?.content;
  return typeof content === "string" ? content : JSON.stringify(content ?? "");
}
