import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { covers, limitedScope, NESTED_SUBCOMMANDS, OTHER_ARGUMENTS, scopeWords, SIMPLE, WITH_SUBCOMMANDS } from '../../web/js/text/scope.js';

const description = JSON.parse(readFileSync(new URL('../../../../docs/approval-scope.json', import.meta.url), 'utf8'));

test('a call suggests the permission of the description', () => {
  for (const { tool, args, scope, label } of description.scopes) {
    const suggested = limitedScope({ name: tool, argsText: JSON.stringify(args) });
    assert.deepEqual(suggested, scope && { tool, ...scope }, JSON.stringify(args));
    assert.equal(suggested && scopeWords(suggested), label);
  }
});

test('a permission covers what the description says', () => {
  for (const { scope, scopeTool, tool, args, allowed } of description.allows) {
    assert.equal(covers({ tool: scopeTool, ...scope }, { name: tool, argsText: JSON.stringify(args) }), allowed, JSON.stringify([scope, args]));
  }
  assert.equal(covers({ tool: 'edit' }, { name: 'edit', argsText: 'no JSON' }), true);
  assert.equal(covers({ tool: 'bash', words: ['ls'] }, { name: 'bash', argsText: 'no JSON' }), false);
});

test('the lists are those of the description', () => {
  assert.deepEqual(OTHER_ARGUMENTS, description.otherArguments);
  assert.deepEqual(WITH_SUBCOMMANDS, description.withSubcommands);
  assert.deepEqual(NESTED_SUBCOMMANDS, description.nestedSubcommands);
  assert.deepEqual(SIMPLE, description.simple);
});
