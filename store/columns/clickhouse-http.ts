import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import type Stream from 'node:stream';
import { ClickHouseLogLevel, createClient } from '@clickhouse/client';
import type { ClickHouseClient, ClickHouseSettings, ExecResult } from '@clickhouse/client';
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { withLinkedSignal } from '../../base/linked-signal.ts';
import type { Random } from '../../base/random.ts';
import { uuidV7 } from '../../base/uuid.ts';
import { checkedBody } from './clickhouse-http-body.ts';
import type { Operation } from './clickhouse-http-errors.ts';
import { answerError, asStoreError } from './clickhouse-http-errors.ts';
import type { Inbox } from './clickhouse-http-inbox.ts';
import { findInbox, throughInbox } from './clickhouse-http-inbox.ts';
import { postBody } from './clickhouse-http-insert.ts';
import type { ColumnStore, Credentials, NativeBlock, QueryOptions, ResultStream } from './column-store.ts';

export type ConnectOptions = {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  readonly clock: Clock;
  readonly random: Random;
  /** Connections at the same time; further requests wait for one (default 24). */
  readonly maxConnections?: number;
  /** Deadline of a request that names none (default 120 s). */
  readonly timeoutMs?: number;
};

/** One Native block becomes one part: no squashing, no splitting, no asynchronous buffer, no deduplication by content. One thread, since one block has no more work. */
const ONE_BLOCK_ONE_PART = {
  async_insert: 0,
  deduplicate_insert: 'disable',
  max_threads: 1,
  max_insert_threads: 1,
  max_block_size: 100_000_000,
  max_insert_block_size: 100_000_000,
  min_insert_block_size_rows: 0,
  min_insert_block_size_bytes: 0,
  optimize_on_insert: 0,
} as const;

/** Below, a file costs more than it saves. */
const INBOX_FROM_BYTES = 256 * 1024;
const NOTHING: readonly Uint8Array[] = [];
const KILL_TIMEOUT_MS = 5_000;
const PING_TIMEOUT_MS = 5_000;
/** The engine gives up first, so that its own error arrives before our deadline cuts the connection. */
const GRACE_MS = 2_000;

type Call = {
  readonly queryId: string;
  readonly timeoutMs: number;
  readonly settings: ClickHouseSettings;
  readonly headers: Record<string, string>;
};

/**
 * Connects to ClickHouse or to the embedded engine: the same HTTP interface.
 * `rows` gives 64-bit and wider integers as strings (`output_format_json_quote_64bit_integers=1`), floats that JSON lacks as the strings "nan", "inf", "-inf"
 * (`output_format_json_quote_denormals=1`). Parameters are bound by the server. A deadline or an aborted signal kills the query on the server.
 */
export function connectColumns(options: ConnectOptions): ColumnStore {
  const isHttps = new URL(options.url).protocol === 'https:';
  const agentOptions = { keepAlive: true, maxSockets: options.maxConnections ?? 24, scheduling: 'lifo' as const };
  const newAgent = (): HttpAgent => (isHttps ? new HttpsAgent(agentOptions) : new HttpAgent(agentOptions));
  const client = createClient({
    url: options.url,
    username: options.user,
    password: options.password,
    http_agent: newAgent(),
    // The deadline is ours (withDeadline): the client's own would not kill the query.
    request_timeout: 24 * 3600 * 1000,
    keep_alive: { enabled: true },
    // Its log would print queries and errors that our caller gets as errors anyway.
    log: { level: ClickHouseLogLevel.OFF },
  });
  // Inserts have connections of their own: the client destroys each of its sockets 2.5 s after its last use of it, whoever uses it then.
  return new HttpColumnStore(options, client, newAgent());
}

type Opened = ResultStream & { readonly cut: (reason: Error) => void };

class HttpColumnStore implements ColumnStore {
  readonly #options: ConnectOptions;
  readonly #client: ClickHouseClient;
  readonly #insertAgent: HttpAgent;
  readonly #closing = new AbortController();
  #inbox: Inbox | null | undefined;

  constructor(options: ConnectOptions, client: ClickHouseClient, insertAgent: HttpAgent) {
    this.#options = options;
    this.#client = client;
    this.#insertAgent = insertAgent;
  }

  async rows<T>(sql: string, options: QueryOptions = {}): Promise<T[]> {
    return this.#run('read', 'rows', options, async (call, signal) => {
      const settings = { output_format_json_quote_64bit_integers: 1, output_format_json_quote_denormals: 1, ...call.settings } as const;
      const { body } = await this.#open(sql, 'JSONEachRow', options, { ...call, settings }, signal);
      return parseLines<T>(await collect(body));
    });
  }

  async stream(sql: string, format: string, options: QueryOptions = {}): Promise<ResultStream> {
    const queryId = options.queryId ?? this.#newId();
    // Our deadline covers the time to the first bytes; from then on `max_execution_time` bounds the query and the reader sets the pace.
    const opened = await this.#run('read', 'the first bytes of a result', { ...options, queryId }, (call, signal) =>
      this.#open(sql, format, options, call, signal),
    );
    return { contentType: opened.contentType, summary: opened.summary, body: this.#cancelling(opened, queryId, options.signal) };
  }

  async insertNative(table: string, columns: readonly string[], block: NativeBlock, options: QueryOptions = {}): Promise<void> {
    const pieces = block instanceof Uint8Array ? [block] : block;
    const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
    await this.#run('write', `an insert into ${table}`, options, async (call, signal) => {
      const names = columns.map(quoteName).join(', ');
      const url = new URL(this.#options.url);
      url.searchParams.set('query', `INSERT INTO ${table} (${names}) FORMAT Native`);
      url.searchParams.set('query_id', call.queryId);
      for (const [name, value] of Object.entries({ ...ONE_BLOCK_ONE_PART, ...call.settings })) url.searchParams.set(name, String(value));
      const headers = { ...call.headers, authorization: basicOf(options.credentials ?? this.#options) };
      const send = (body: readonly Uint8Array[], more = {}): Promise<void> =>
        postBody(url, body, { agent: this.#insertAgent, signal, headers: { ...headers, ...more } });
      const inbox = bytes < INBOX_FROM_BYTES ? null : await this.#findInbox(headers, signal);
      const name = this.#newId();
      const isStored = inbox !== null && (await throughInbox(inbox, name, pieces, () => send(NOTHING, { 'x-tapedeck-inbox-file': name })));
      if (!isStored) await send(pieces);
    });
  }

  async #findInbox(headers: Record<string, string>, signal: AbortSignal): Promise<Inbox | null> {
    if (this.#inbox === undefined) this.#inbox = await findInbox(new URL(this.#options.url), { agent: this.#insertAgent, headers, signal });
    return this.#inbox;
  }

  async command(sql: string, options: QueryOptions = {}): Promise<void> {
    await this.#run('write', 'a command', options, async (call, signal) => {
      const settings = { wait_end_of_query: 1, async_insert: 0, ...call.settings } as const;
      const { stream } = await this.#exec('write', sql, options, { ...call, settings }, signal);
      await collect(stream);
    });
  }

  async ping(signal?: AbortSignal): Promise<void> {
    this.#assertOpen();
    const answer = await withDeadline(
      this.#options.clock,
      PING_TIMEOUT_MS,
      'the column store to answer a ping',
      async (inner) => this.#client.ping({ select: false, abort_signal: inner }),
      signal,
    ).catch((error: unknown) => ({ success: false as const, error }));
    if (answer.success) return;
    if (isTapedeckError(answer.error, 'aborted')) throw answer.error;
    throw new TapedeckError('store_unavailable', 'the column store does not answer', { cause: answer.error });
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new TapedeckError('closed', 'the connection to the column store was closed'));
    await this.#client.close();
    this.#insertAgent.destroy();
  }

  async #open(sql: string, format: string, options: QueryOptions, call: Call, signal: AbortSignal): Promise<Opened> {
    const result = await this.#exec('read', `${sql}\nFORMAT ${format}`, options, call, signal);
    const header = (name: string): string | undefined => {
      const value = result.response_headers[name];
      return Array.isArray(value) ? value[0] : value;
    };
    return {
      body: checkedBody(result.stream, header('x-clickhouse-exception-tag')),
      contentType: header('content-type') ?? 'application/octet-stream',
      summary: header('x-clickhouse-summary') ?? null,
      cut: (reason) => void result.stream.destroy(reason),
    };
  }

  /** Error answers are read here: the client's own reading loses the end of a message that has parentheses in it, as every syntax error has. */
  async #exec(
    operation: Operation,
    query: string,
    options: QueryOptions,
    call: Call,
    signal: AbortSignal,
  ): Promise<ExecResult<Stream.Readable>> {
    const result = await this.#client.exec({
      query,
      query_id: call.queryId,
      clickhouse_settings: call.settings,
      http_headers: call.headers,
      abort_signal: signal,
      ignore_error_response: true,
      ...(options.params ? { query_params: { ...options.params } } : {}),
      ...(options.credentials ? { auth: { username: options.credentials.user, password: options.credentials.password } } : {}),
    });
    if (result.http_status_code === undefined || result.http_status_code < 400) return result;
    throw answerError(await collect(result.stream), result.http_status_code, operation);
  }

  /** Passes bytes on; a reader that stops early, or a signal, kills the query on the server. */
  async *#cancelling(opened: Opened, queryId: string, outer?: AbortSignal): AsyncGenerator<Uint8Array> {
    let isFinished = false;
    const onAbort = (): void => opened.cut(new TapedeckError('aborted', 'aborted while reading a result', { cause: outer?.reason }));
    outer?.addEventListener('abort', onAbort, { once: true });
    try {
      if (outer?.aborted) onAbort();
      yield* opened.body;
      isFinished = true;
    } catch (error) {
      throw asStoreError(error, 'read');
    } finally {
      outer?.removeEventListener('abort', onAbort);
      if (!isFinished) {
        opened.cut(new TapedeckError('aborted', 'the reader of a result stopped'));
        await this.#kill(queryId);
      }
    }
  }

  async #run<T>(
    operation: Operation,
    what: string,
    options: QueryOptions,
    work: (call: Call, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    this.#assertOpen();
    const timeoutMs = options.timeoutMs ?? this.#options.timeoutMs ?? 120_000;
    const call: Call = {
      queryId: options.queryId ?? this.#newId(),
      timeoutMs,
      settings: { max_execution_time: Math.max(timeoutMs / 1000, 0.001), ...options.settings } as ClickHouseSettings,
      headers: { 'X-ClickHouse-Database': options.database ?? this.#options.database },
    };
    return withLinkedSignal([options.signal, this.#closing.signal], async (signal) => {
      if (signal.aborted) throw new TapedeckError('aborted', `aborted before ${what}`, { cause: signal.reason });
      let started = false;
      try {
        return await withDeadline(
          this.#options.clock,
          timeoutMs + GRACE_MS,
          `the column store: ${what}`,
          (inner) => {
            started = true;
            return work(call, inner);
          },
          signal,
        );
      } catch (error) {
        if (started && isTapedeckError(error, 'aborted', 'deadline_exceeded')) await this.#kill(call.queryId);
        throw asStoreError(error, operation);
      }
    });
  }

  /** Best effort: a query that has ended meanwhile is not an error, and neither is a server that is gone. */
  async #kill(queryId: string): Promise<void> {
    if (this.#closing.signal.aborted) return;
    await withDeadline(this.#options.clock, KILL_TIMEOUT_MS, 'a query to be killed', async (signal) =>
      this.#client.command({ query: `KILL QUERY WHERE query_id = ${quoteText(queryId)} ASYNC`, abort_signal: signal }),
    ).catch(() => undefined);
  }

  #newId(): string {
    return uuidV7(this.#options.clock, this.#options.random);
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new TapedeckError('closed', 'the connection to the column store is closed');
  }
}

function basicOf({ user, password }: Credentials): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
}

function quoteName(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

function quoteText(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

async function collect(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts);
}

/** Lines are parsed one by one, so that a result may exceed the longest possible string. */
function parseLines<T>(bytes: Buffer): T[] {
  const rows: T[] = [];
  for (let start = 0; start < bytes.length;) {
    const end = bytes.indexOf(10, start);
    const stop = end < 0 ? bytes.length : end;
    if (stop > start) rows.push(JSON.parse(bytes.toString('utf8', start, stop)) as T);
    start = stop + 1;
  }
  return rows;
}
