import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { toJson } from '../../events/codec/cbor-to-json.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { logPartition } from '../../store/columns/projections/position.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { deadLetterAnswer, deadLettersAnswer, retriedAnswer } from '../routes/answers/operations-answers.ts';
import { abortedWith } from './client-gone.ts';
import { operation } from './operation-schema.ts';
import { parsed } from './parsed.ts';

const place = z.strictObject({ partition: z.coerce.number().int().min(0).max(65_535), offset: z.coerce.number().int().min(0) });
const listQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  partition: z.coerce.number().int().min(0).optional(),
  after: z.coerce.number().int().min(-1).optional(),
});
const retryBody = z.union([z.strictObject({ all: z.literal(true) }), z.strictObject({ positions: z.array(place).min(1).max(10_000) })]);

type Letter = {
  partition: number;
  offset: string;
  reason: string;
  message: string;
  id: string | null;
  type: string;
  project: string;
  run: string;
  rollout: string;
  trace: string;
  bytes: number;
};
const COLUMNS =
  '_partition AS partition, _offset AS offset, reason, message, toString(id) AS id, type, project, run, rollout, trace, bytes';
const RETRY_CHUNK = 200;

/**
 * `GET /v1/dead-letters` lists what could not be stored, in log order; `GET /v1/dead-letters/{partition}/{offset}` shows one with its bytes (base64)
 * and, when they can be read at all, as JSON text.
 */
export const deadLetterRoutes: FastifyPluginAsync<{ readonly store: ColumnStore }> = async (app, { store }) => {
  app.get(
    '/v1/dead-letters',
    operation({ summary: 'List dead letters', querystring: listQuery, forms: { 'application/json': deadLettersAnswer } }),
    async (request, reply) => {
      const { limit, partition, after } = parsed(listQuery, request.query);
      const from = partition === undefined ? '' : 'WHERE (_partition, _offset) > ({partition:UInt16}, {after:Int64})';
      const letters = await store.rows<Letter>(
        `SELECT ${COLUMNS} FROM dead_letters FINAL ${from} ORDER BY _partition, _offset LIMIT {limit:UInt32}`,
        {
          params: { limit, partition: partition ?? 0, after: after ?? -1 },
          signal: abortedWith(reply),
        },
      );
      return { letters: letters.map((letter) => ({ ...letter, offset: Number(letter.offset) })) };
    },
  );

  app.get(
    '/v1/dead-letters/:partition/:offset',
    operation({ summary: 'Show one dead letter with its bytes', params: place, forms: { 'application/json': deadLetterAnswer } }),
    async (request) => {
      const { partition, offset } = parsed(place, request.params);
      const [letter] = await rawLetters(store, `_partition = ${partition} AND _offset = ${offset}`, 1);
      if (letter === undefined) throw new TapedeckError('not_found', `there is no dead letter at ${partition}/${offset}`);
      return { ...letter, offset: Number(letter.offset), json: readable(Buffer.from(letter.raw, 'base64')) };
    },
  );
};

/** `POST /v1/dead-letters/retry` appends dead letters to the log again, as new records: what was wrong before is judged anew. Needs a log open for writing. */
export const deadLetterRetryRoutes: FastifyPluginAsync<{ readonly store: ColumnStore; readonly log: EventLog }> = async (
  app,
  { store, log },
) => {
  app.post(
    '/v1/dead-letters/retry',
    operation({ summary: 'Append dead letters to the log again', body: retryBody, forms: { 'application/json': retriedAnswer } }),
    async (request, reply) => {
      const body = parsed(retryBody, request.body);
      const signal = abortedWith(reply);
      let retried = 0;
      for await (const letters of 'all' in body ? allLetters(store) : chosenLetters(store, body.positions)) {
        for (const letter of letters) {
          const { partition } = logPartition(Number(letter.partition));
          await log.append(partition, [{ key: new Uint8Array(), value: Buffer.from(letter.raw, 'base64') }], signal);
          retried++;
        }
      }
      return { retried };
    },
  );
};

type RawLetter = Letter & { raw: string };

async function rawLetters(store: ColumnStore, where: string, limit: number): Promise<RawLetter[]> {
  return store.rows<RawLetter>(
    `SELECT ${COLUMNS}, base64Encode(raw) AS raw FROM dead_letters FINAL WHERE ${where} ORDER BY _partition, _offset LIMIT ${limit}`,
  );
}

/** All letters that were there when it began: a letter that fails again is a new one at the end of the log, and is not retried twice. */
async function* allLetters(store: ColumnStore): AsyncGenerator<RawLetter[]> {
  const ends = await store.rows<{ partition: number; high: string }>(
    'SELECT _partition AS partition, max(_offset) AS high FROM dead_letters GROUP BY _partition',
  );
  for (const { partition, high } of ends) {
    let after = -1;
    for (;;) {
      const letters = await rawLetters(
        store,
        `_partition = ${Number(partition)} AND toInt64(_offset) > ${after} AND _offset <= ${Number(high)}`,
        RETRY_CHUNK,
      );
      if (letters.length === 0) break;
      yield letters;
      after = Number((letters.at(-1) as RawLetter).offset);
    }
  }
}

async function* chosenLetters(store: ColumnStore, positions: readonly z.infer<typeof place>[]): AsyncGenerator<RawLetter[]> {
  for (let at = 0; at < positions.length; at += RETRY_CHUNK) {
    const list = positions.slice(at, at + RETRY_CHUNK).map((p) => `(${p.partition}, ${p.offset})`);
    yield rawLetters(store, `(_partition, _offset) IN (${list.join(',')})`, RETRY_CHUNK);
  }
}

function readable(raw: Uint8Array): string | null {
  try {
    return toJson(decodeCbor(raw));
  } catch {
    return null;
  }
}
