import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressOf, readAddress } from '../../web/js/text/address.js';
import { foundSessions, leftOutOfSearch, passage, placesOf, wordsOf } from '../../web/js/text/hits.js';
import { modelChoices, modelsOf } from '../../web/js/text/models.js';

test('an address says a session and a place in it', () => {
  for (const [id, seq] of [['a-1', null], ['a-1', 12], ['a-1', 0]]) assert.deepEqual(readAddress(addressOf(id, seq)), { id, seq });
  for (const hash of ['', '#/', '#/s/', '#/s/a/b', '#/s/a/1/2', '#/s/a?x', '#opening-link-spent']) assert.deepEqual(readAddress(hash), { id: null, seq: null }, hash);
});

test('hits are put together by session, with or without a place', () => {
  const hit = (sessionId, more) => ({ sessionId, title: 'T', at: 5, role: 'user', text: 'x', ...more });
  const found = foundSessions([hit('a', { seq: null, at: null }), hit('a', { seq: 7 }), hit('b', { handle: 'lh:3-9' }), hit('a', { seq: 7 }), hit('a', { seq: 2, at: 9 })]);
  assert.deepEqual(found.map(({ id, at, places }) => [id, at, places.map((place) => place.seq)]), [['a', 9, [7, 2]], ['b', 5, [3]]]);
  assert.deepEqual(foundSessions([{ sessionId: 'c' }]), [{ id: 'c', title: null, at: null, places: [] }]);
});

test('what a search left out is said', () => {
  assert.equal(leftOutOfSearch({ complete: true, incompleteReasons: [] }), '');
  const some = leftOutOfSearch({ complete: false, incompleteReasons: ['more-hits', 'damage', 'something-new'] });
  assert.equal(some, 'Not complete: there are more hits; damaged messages were not searched.');
  assert.equal(leftOutOfSearch({ complete: false }), 'The newest of them; there may be more.');
});

test('a passage stands around its words, which are marked', () => {
  const text = `${'before '.repeat(20)}the Lighthouse\nand the sea ${'after '.repeat(40)}`;
  const pieces = passage(text, wordsOf('SEA lighthouse sea'));
  assert.deepEqual(pieces.filter((piece) => piece.isWord).map((piece) => piece.text), ['Lighthouse', 'sea']);
  const line = pieces.map((piece) => piece.text).join('');
  assert.match(line, /^…before .*the Lighthouse and the sea .*…$/);
  assert.deepEqual(passage('nothing here', ['x']), [{ text: 'nothing here', isWord: false }]);
  assert.deepEqual(placesOf('aaa b aa', ['aa', 'a', 'b']), [[0, 2], [2, 3], [4, 5], [6, 8]]);
  assert.deepEqual(placesOf('İ sea', ['sea']), [], 'rather no mark than one in the wrong place');
});

test('models are offered once each, the current one first; agents where there are several', () => {
  const agents = [{ name: 'default', model: 'big', isDefault: true, usable: true }, { name: 'small', model: 'tiny', usable: false, why: 'no key' }];
  const [named, plain] = modelChoices({ agents, models: ['big', 'other'], current: 'mine' });
  assert.deepEqual(named.choices.map(({ label, note, why, choice }) => [label, note, why, choice]), [['default', 'big', undefined, { agent: 'default' }], ['small', 'no key', 'no key', { agent: 'small' }]]);
  assert.deepEqual(plain.choices.map(({ label, isCurrent }) => [label, isCurrent]), [['mine', true], ['big', false], ['other', false]]);
  assert.deepEqual(modelChoices({ agents: agents.slice(0, 1), current: 'big' }).map((group) => group.title), ['Models']);
  const [mine] = modelChoices({ agents, current: 'big', agent: 'default' });
  assert.deepEqual(mine.choices.map(({ isCurrent }) => isCurrent), [true, false]);
  assert.equal(modelChoices({ agents, current: 'other', agent: 'default' })[0].choices[0].isCurrent, false, 'an agent with another model can be chosen to have its own again');
  assert.deepEqual(modelChoices({}), []);
  assert.deepEqual(modelsOf({ allowed: { summarizeWith: [{ value: '__same__', label: 'The session’s model' }, { value: 'm', label: 'm' }] } }), ['m']);
  assert.deepEqual(modelsOf(null), []);
});
