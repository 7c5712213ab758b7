// Answers that broke off, as one answer: beginnings that the model went on with, and attempts that came to nothing. Pure.

/**
 * Groups messages so that an answer is one entry, however often its connection broke.
 *
 * `before` holds what came before the message and belongs to its answer, oldest first: lost attempts, and broken
 * beginnings with the notes that asked the model to go on. `trail` is a lost attempt to continue the message, as long
 * as nothing came after it.
 *
 * @returns {{message: Message, before: Message[], trail: Message|null}[]}
 */
export function answersOf(messages, notices = []) {
  const ids = new Set(messages.map((message) => message.id));
  const byId = new Map();
  const early = new Map();
  const answers = [];
  for (const message of messages) {
    if (isLost(message) && ids.has(message.continues)) {
      addAttempt(message, byId.get(message.continues), early);
      continue;
    }
    const answer = { message, before: early.get(message.id) ?? [], trail: null };
    if (message.kind === 'model') takeBroken(answers, answer, notices);
    byId.set(message.id, answer);
    answers.push(answer);
  }
  return answers;
}

/** An answer that was continued since stands at its end, behind the attempts in its middle. */
function addAttempt(attempt, answer, early) {
  if (!answer) {
    early.set(attempt.continues, [...(early.get(attempt.continues) ?? []), attempt]);
  } else if (answer.message.seq > attempt.seq) {
    answer.before = [...answer.before, attempt];
  } else {
    if (answer.trail) answer.before = [...answer.before, answer.trail];
    answer.trail = attempt;
  }
}

/** Takes broken answers right before an answer into it. */
function takeBroken(answers, answer, notices) {
  const number = brokenBefore(answers);
  if (!number) return;
  const taken = answers.slice(-number);
  // The end of a run in between was the end of that answer.
  const hasEnded = notices.some(({ isEnd, seq }) => isEnd && taken[0].message.seq < seq && seq < answer.message.seq);
  if (hasEnded) return;
  answers.length -= number;
  answer.before = [...taken.flatMap(allOf), ...answer.before];
}

/** The number of entries at the end that belong to the next answer: a lost attempt, or a broken beginning with notes. */
export function brokenBefore(answers) {
  const last = answers.findLastIndex(({ message }) => message?.kind !== 'note');
  const message = answers[last]?.message;
  if (message?.kind !== 'model') return 0;
  const notes = answers.length - 1 - last;
  return (notes ? message.paused : isLost(message)) ? notes + 1 : 0;
}

/** All messages of an answer, in the order in which they are read. */
export function allOf({ message, before = [], trail }) {
  return [...before, message, ...(trail ? [trail] : [])];
}

export function isLost(message) {
  return message.kind === 'model' && message.interrupted === 'lost';
}

/** A message with the attempt to continue it, as it was seen before the connection broke. */
export function withTrail(message, trail) {
  if (!trail) return message;
  const { interrupted, error } = trail;
  return { ...message, text: message.text + trail.text, reasoning: message.reasoning + trail.reasoning, interrupted, error };
}
