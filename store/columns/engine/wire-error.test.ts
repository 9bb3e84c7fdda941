import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerError, parseException } from '../clickhouse-http-errors.ts';
import { httpStatusOf, refusal, wireErrorOf, wireText } from './wire-error.ts';

const VERSION = '26.7.2.1';

test('what the engine says twice is said once', () => {
  const cases: [string, number, string, string][] = [
    ['Code: 47. DB::Exception: Unknown x (a) in scope. (UNKNOWN_IDENTIFIER)', 47, 'UNKNOWN_IDENTIFIER', 'Unknown x (a) in scope'],
    [
      'Code: 164. DB::Exception: Code: 164. DB::Exception: Cannot modify. (READONLY) (version 26.7.2.1). (READONLY)',
      164,
      'READONLY',
      'Cannot modify',
    ],
    [
      'Code: 1. DB::Exception: a\nb (official build). (SOME_NAME) (version 26.7.2.1 (official build))',
      1,
      'SOME_NAME',
      'a\nb (official build)',
    ],
  ];
  for (const [message, code, name, text] of cases) assert.deepEqual(wireErrorOf(new Error(message)), { code, name, text }, message);
});

test('a message that is not from the engine is an unknown exception; a full disk has its own code', () => {
  assert.equal(wireErrorOf(new Error('odd')).code, 1002);
  assert.equal(wireErrorOf(Object.assign(new Error('write failed'), { code: 'ENOSPC' })).code, 243);
  assert.equal(
    answerError(Buffer.from(wireText(wireErrorOf(Object.assign(new Error('x'), { code: 'ENOSPC' })), VERSION)), 500, 'write').code,
    'disk_full',
  );
});

test('what is written is what our driver reads', () => {
  const error = wireErrorOf(
    refusal(62, 'SYNTAX_ERROR', 'Syntax error: failed at position 1 (SELEC) (line 1, col 1): SELEC. Expected one of: SELECT'),
  );
  assert.equal(httpStatusOf(error), 400);
  assert.deepEqual(parseException(wireText(error, VERSION)), { code: 62, type: 'SYNTAX_ERROR', message: error.text });
  assert.equal(parseException('rows\tthat say Code: 5\n'), null);
});
