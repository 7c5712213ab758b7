// The answer in flight, and messages as they are stored. Pure.
import { indexOf, put, readParts, replaced } from './messages.js';

export const handlers = {
  'llm:chunk': chunk,
  'llm:snapshot': snapshot,
  'llm:tool-input': toolInput,
  'llm:response': response,
  'message:added': added,
};

/** Where a piece begins is counted in characters; what comes again, or anew after a failed try, replaces what was there. */
function chunk(state, { messageId, stepId, chunkType, content, offset, at }) {
  const begun = state.answer?.messageId === messageId ? state.answer : begin(state, messageId, stepId, at);
  const [text, length] = chunkType === 'reasoning' ? ['reasoning', 'reasoningLength'] : ['text', 'length'];
  const before = offset < begun[length] ? cut(begun[text], offset) : begun[text];
  const restarts = offset === 0 && chunkType === 'reasoning' && begun.reasoningLength > 0 && content !== '';
  const answer = {
    ...(restarts ? { ...begun, text: '', length: 0 } : begun),
    stepId,
    [text]: before + content,
    [length]: offset + characters(content),
    stale: false,
  };
  if (chunkType === 'text' && content && !answer.textAt) answer.textAt = at;
  return { ...state, answer, retry: null };
}

/** An answer that was paused goes on where it stopped. */
function begin(state, messageId, stepId, at) {
  const paused = state.messages[indexOf(state.messages, messageId)];
  const text = paused?.text ?? '';
  const reasoning = paused?.reasoning ?? '';
  return {
    messageId, stepId, text, reasoning, begunAt: at,
    length: characters(text), reasoningLength: characters(reasoning),
  };
}

function snapshot(state, { messageId, stepId, parts, offset, reasoningOffset, at }) {
  const { text, reasoning } = readParts(parts);
  const begunAt = state.answer?.messageId === messageId ? state.answer.begunAt : at;
  const answer = { messageId, stepId, text, reasoning, begunAt, length: offset, reasoningLength: reasoningOffset ?? 0 };
  return { ...state, answer, run: state.run ?? { steps: 0 } };
}

function toolInput(state, { stepId, index, toolName, delta }) {
  const mine = state.writing.filter((call) => call.stepId === stepId);
  const at = mine.findIndex((call) => call.index === index);
  if (at < 0) {
    const call = { stepId, index, name: toolName ?? '', length: delta?.length ?? 0 };
    return { ...state, writing: [...mine, call] };
  }
  const call = { ...mine[at], length: mine[at].length + (delta?.length ?? 0) };
  return { ...state, writing: replaced(mine, at, call) };
}

function added(state, event) {
  const { seq, messageId, role, source, parts, continues, paused, interrupted, at } = event;
  if (role === 'tool') return state;
  const read = readParts(parts);
  const kind = role === 'assistant' ? 'model' : source === 'typed' ? 'typed' : 'note';
  let message = { id: messageId, seq, at, kind, ...read };
  if (kind === 'model') message = { ...message, paused: paused === true, interrupted };
  let { messages } = state;
  // The text of a lost attempt is no part of the answer: the next piece goes on where the attempt began.
  const isAttempt = interrupted === 'lost' && continues;
  if (isAttempt) message.continues = continues;
  const begunAt = continues && !isAttempt ? indexOf(messages, continues) : -1;
  if (begunAt >= 0) {
    const begun = messages[begunAt];
    if (begun.pieces?.includes(messageId)) return state;
    message = {
      ...begun, ...message, id: begun.id, text: begun.text + read.text, reasoning: begun.reasoning + read.reasoning,
      pieces: [...(begun.pieces ?? []), messageId], error: undefined,
    };
    messages = messages.filter((_, index) => index !== begunAt);
  }
  const isAnswer = kind === 'model' && state.answer && [messageId, continues].includes(state.answer.messageId);
  if (isAnswer) message.thoughtFor = thoughtFor(state.answer);
  return {
    ...state,
    messages: put(messages, message),
    answer: kind === 'model' ? null : state.answer,
    writing: kind === 'model' ? [] : state.writing,
    retry: null,
    run: state.run && { ...state.run, stepSince: at },
  };
}

function thoughtFor(answer) {
  return answer.reasoning && answer.textAt ? answer.textAt - answer.begunAt : undefined;
}

function response(state, { seq, stepId, provider, model, tokenUsage }) {
  const messageId = `m-${stepId}`;
  const at = state.messages.findLastIndex((message) => message.id === messageId || message.pieces?.includes(messageId));
  const messages = at < 0
    ? state.messages
    : replaced(state.messages, at, { ...state.messages[at], usage: tokenUsage, model: { provider, model } });
  const run = state.run && { ...state.run, steps: (state.run.steps ?? 0) + (seq > state.seq ? 1 : 0) };
  return { ...state, messages, run, steps: withStep(state.steps, seq, messageId, tokenUsage) };
}

/** Steps by position, each once. */
export function withStep(steps, seq, messageId, usage) {
  if (!usage || steps.some((step) => step.messageId === messageId)) return steps;
  const step = {
    seq, messageId, input: usage.inputTokens, cached: usage.cacheReadTokens ?? 0, output: usage.outputTokens,
  };
  const at = steps.findLastIndex((other) => other.seq < seq) + 1;
  return [...steps.slice(0, at), step, ...steps.slice(at)];
}

/** Characters as the server counts them. */
export function characters(text) {
  let all = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code >= 0xd800 && code < 0xdc00) all -= 1;
  }
  return all;
}

function cut(text, length) {
  return characters(text) === text.length ? text.slice(0, length) : [...text].slice(0, length).join('');
}
