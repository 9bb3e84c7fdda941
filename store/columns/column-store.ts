/**
 * The column store: ClickHouse, spoken to over HTTP, be it a server or the embedded engine process. Types only; driver: clickhouse-http.ts.
 */

/** Named parameters, bound by type in the SQL as `{name:Type}`; never pasted into the text. */
export type SqlParams = Readonly<Record<string, unknown>>;

export type Credentials = { readonly user: string; readonly password: string };

export type QueryOptions = {
  readonly params?: SqlParams;
  readonly settings?: Readonly<Record<string, string | number>>;
  readonly database?: string;
  readonly signal?: AbortSignal;
  /** Deadline of the whole query, also given to the engine as `max_execution_time`. */
  readonly timeoutMs?: number;
  readonly queryId?: string;
  /** Asks as another user than that of the connection. */
  readonly credentials?: Credentials;
};

/** The bytes of a block, in one piece or in several that follow each other. */
export type NativeBlock = Uint8Array | readonly Uint8Array[];
export type ResultStream = {
  readonly body: AsyncIterable<Uint8Array>;
  readonly contentType: string;
  /** The engine's own account of the query (`X-ClickHouse-Summary`, JSON); true for an answer that it could hold back, all zeros for others. */
  readonly summary: string | null;
};

export interface ColumnStore {
  /** Rows as objects, 64-bit integers as strings or bigint per `format_*` settings of the driver (documented there). For results that fit in memory. */
  rows<T>(sql: string, options?: QueryOptions): Promise<T[]>;

  /** The result as a stream of bytes in `format`, with back-pressure; destroying the stream cancels the query. */
  stream(sql: string, format: string, options?: QueryOptions): Promise<ResultStream>;

  /**
   * Inserts one Native block as one part, synchronously, without deduplication (`async_insert=0, deduplicate_insert='disable'`): resolves when stored.
   * Atomic: all rows or none. Inserting the same block again is legal. Errors keep ClickHouse's code in `details.clickhouseCode`.
   */
  insertNative(table: string, columns: readonly string[], block: NativeBlock, options?: QueryOptions): Promise<void>;

  /** Runs a statement without a result (DDL, INSERT SELECT, ALTER). */
  command(sql: string, options?: QueryOptions): Promise<void>;

  /** Resolves when the store answers, rejects with `store_unavailable`. */
  ping(signal?: AbortSignal): Promise<void>;

  close(): Promise<void>;
}
