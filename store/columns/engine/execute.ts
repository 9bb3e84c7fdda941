import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../../base/clock.ts';
import type { Random } from '../../../base/random.ts';
import { isUuid, uuidV7 } from '../../../base/uuid.ts';
import { spoolToFile } from './body-spool.ts';
import { killUntilSettled } from './cancel.ts';
import type { EngineResult, EngineSession } from './chdb.ts';
import type { EngineFacts, Reply, Summary } from './reply.ts';
import type { EngineRequest } from './request.ts';
import { openFifo } from './result-fifo.ts';
import type { Prepare, Sessions } from './sessions.ts';
import { quoteText } from './settings.ts';
import type { Slots } from './slots.ts';
import type { Statement } from './statement.ts';
import { killByComment } from './statement.ts';
import { refusal, wireErrorOf } from './wire-error.ts';

/** What all requests of one engine share. */
export type EngineContext = {
  readonly spoolDirectory: string;
  readonly fifos: readonly string[];
  /** Statements with a result: one named pipe each. */
  readonly readSlots: Slots;
  /** Everything else, apart: readers that are slow must not keep a writer waiting. */
  readonly writeSlots: Slots;
  readonly sessions: Sessions;
  readonly control: EngineSession;
  readonly knownSettings: ReadonlySet<string>;
  readonly running: Set<string>;
  readonly facts: EngineFacts;
  readonly clock: Clock;
  readonly random: Random;
  readonly stallMs: number;
};

export type Job = {
  readonly request: EngineRequest;
  readonly settings: ReadonlyMap<string, string>;
  readonly queryId: string;
  readonly statement: Statement;
  readonly format: string;
  readonly reply: Reply;
  readonly gone: AbortSignal;
  readonly prepare?: Prepare;
  /** The bytes behind an INSERT. */
  readonly data: { readonly first: Uint8Array; readonly rest: AsyncIterable<Uint8Array> };
};

/** Runs one statement and answers. Everything that was taken (slot, session, file, query id) is given back before the answer ends. */
export async function execute(context: EngineContext, job: Job): Promise<void> {
  if (context.running.has(job.queryId)) {
    throw refusal(216, 'QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING', `Query with id = ${job.queryId} is already running`);
  }
  context.running.add(job.queryId);
  let file: string | null = null;
  let summary: Summary | null = null;
  let failure: unknown;
  try {
    if (job.statement.kind === 'insert') {
      const { inboxFile } = job.request;
      file = inboxFile === null ? join(context.spoolDirectory, uuidV7(context.clock, context.random)) : inboxPath(context, inboxFile);
      if (inboxFile === null) await spoolToFile(file, job.data.first, job.data.rest);
    }
    summary = await inSlot(context, job, file);
  } catch (error) {
    failure = error;
  } finally {
    context.running.delete(job.queryId);
    if (file !== null) await rm(file, { force: true });
  }
  if (summary) await job.reply.end(summary);
  else await job.reply.fail(wireErrorOf(failure));
}

/** Only a file that lies in the inbox, under a name as we make them. */
function inboxPath(context: EngineContext, name: string): string {
  if (!isUuid(name)) throw refusal(36, 'BAD_ARGUMENTS', 'X-Tapedeck-Inbox-File must be a UUID');
  const path = join(context.spoolDirectory, name);
  if (!existsSync(path)) throw refusal(107, 'FILE_DOESNT_EXIST', 'The file is not in the inbox: write it again');
  return path;
}

async function inSlot(context: EngineContext, job: Job, file: string | null): Promise<Summary> {
  const slots = job.statement.kind === 'rows' ? context.readSlots : context.writeSlots;
  const slot = await slots.acquire(job.gone);
  try {
    const lease = await context.sessions.lease(job.request, job.settings, job.queryId, textOf(job.statement), job.prepare);
    try {
      return await runStatement(context, job, lease.session, { slot, file });
    } finally {
      await lease.release();
    }
  } finally {
    slots.release(slot);
  }
}

async function runStatement(
  context: EngineContext,
  job: Job,
  session: EngineSession,
  place: { slot: number; file: string | null },
): Promise<Summary> {
  const started = context.clock.monotonicMs();
  const { statement } = job;
  const elapsed = (): number => context.clock.monotonicMs() - started;
  if (statement.kind === 'rows') {
    const result = await streamRows(context, job, session, context.fifos[place.slot] as string, statement);
    return { readRows: result.rowsRead, readBytes: result.bytesRead, writtenRows: 0, elapsedMs: elapsed() };
  }
  const sql =
    statement.kind === 'insert'
      ? `${statement.head}\nFROM INFILE ${quoteText(place.file as string)} ${statement.clauses}\nFORMAT ${statement.format}`
      : statement.text;
  const result = await session.run(sql, job.format);
  if (statement.kind === 'plain') {
    const bytes = result.bytes;
    if (bytes.length > 0) await job.reply.write(bytes);
  }
  const isWrite = statement.kind === 'insert';
  return { readRows: result.rowsRead, readBytes: result.bytesRead, writtenRows: isWrite ? result.rowsRead : 0, elapsedMs: elapsed() };
}

/** The engine writes the result into the pipe, we pass it on. A client that goes away or stops reading ends the query. */
async function streamRows(
  context: EngineContext,
  job: Job,
  session: EngineSession,
  path: string,
  statement: Statement & { kind: 'rows' },
): Promise<EngineResult> {
  const fifo = openFifo(path);
  const settled = new AbortController();
  const killed = (): void => void killUntilSettled(context.control, job.queryId, settled.signal, context.clock);
  job.gone.addEventListener('abort', killed, { once: true });
  const tail = statement.format === null ? `FORMAT ${job.format}` : statement.tail;
  const head = statement.verb === 'KILL' ? killByComment(statement.head) : statement.head;
  const sql = `${head}\nINTO OUTFILE ${quoteText(path)} APPEND ${tail}`;
  const running = session.run(sql).finally(() => {
    settled.abort();
    fifo.writerIsDone();
  });
  // Awaited below in every case; until then a failure must not count as unhandled.
  running.catch(() => undefined);
  try {
    if (job.gone.aborted) killed();
    for await (const chunk of fifo.bytes) await job.reply.write(chunk);
  } catch (error) {
    fifo.close();
    killed();
    await running.catch(() => undefined);
    throw error;
  } finally {
    job.gone.removeEventListener('abort', killed);
    await running.catch(() => undefined);
    fifo.close();
  }
  return running;
}

function textOf(statement: Statement): string {
  if (statement.kind === 'plain') return statement.text;
  return statement.kind === 'rows' ? `${statement.head} ${statement.tail}` : `${statement.head} ${statement.clauses}`;
}
