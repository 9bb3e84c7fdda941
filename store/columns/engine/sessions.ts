import type { Clock } from '../../../base/clock.ts';
import type { EngineSession } from './chdb.ts';
import { openSession } from './chdb.ts';
import type { EngineRequest } from './request.ts';
import { quoteName, quoteText, SESSION_DEFAULTS } from './settings.ts';
import { placeholders } from './statement.ts';
import { refusal } from './wire-error.ts';

export type Lease = {
  readonly session: EngineSession;
  /** Gives the session back: closes it, or, for a named one, undoes what only this request had set. */
  release(): Promise<void>;
};

type Named = { readonly session: EngineSession; isBusy: boolean; idle: AbortController; readonly seenParameters: Set<string> };

export type Sessions = {
  lease(
    request: EngineRequest,
    settings: ReadonlyMap<string, string>,
    queryId: string,
    statement: string,
    prepare?: Prepare,
  ): Promise<Lease>;
  readonly named: number;
  close(): void;
};

/** What must happen in the session before its settings are applied (they may make it read-only), and how to undo it. */
export type Prepare = (session: EngineSession) => Promise<() => Promise<void>>;

const MAX_NAMED_SESSIONS = 1000;

/**
 * A session per request, so that nothing leaks from one to the next; with a `session_id`, a session that lives on: its temporary tables, `SET` and `USE`
 * stay, the settings and the database of one request's URL do not. One request at a time may use it (code 373).
 */
export function createSessions(directory: string, clock: Clock): Sessions {
  const named = new Map<string, Named>();
  const drop = (id: string): void => {
    const entry = named.get(id);
    named.delete(id);
    entry?.idle.abort();
    entry?.session.close();
  };
  const find = async (request: NonNullable<EngineRequest['session']>): Promise<Named> => {
    const existing = named.get(request.id);
    if (existing?.isBusy) throw refusal(373, 'SESSION_IS_LOCKED', `Session ${request.id} is locked by a concurrent client`);
    if (existing) {
      existing.isBusy = true;
      existing.idle.abort();
      return existing;
    }
    if (request.mustExist) throw refusal(372, 'SESSION_NOT_FOUND', `Session ${request.id} not found`);
    if (named.size >= MAX_NAMED_SESSIONS)
      throw refusal(202, 'TOO_MANY_SIMULTANEOUS_QUERIES', `More than ${MAX_NAMED_SESSIONS} sessions are open`);
    const entry: Named = { session: openSession(directory), isBusy: true, idle: new AbortController(), seenParameters: new Set() };
    named.set(request.id, entry);
    await entry.session.run(setStatement(Object.entries(SESSION_DEFAULTS)));
    return entry;
  };
  const giveBack = (request: NonNullable<EngineRequest['session']>, entry: Named): void => {
    entry.isBusy = false;
    entry.idle = new AbortController();
    const idle = entry.idle.signal;
    clock.sleep(request.timeoutS * 1000, idle).then(
      () => drop(request.id),
      () => undefined,
    );
  };

  const leaseNamed = async (
    request: EngineRequest & { session: NonNullable<EngineRequest['session']> },
    settings: ReadonlyMap<string, string>,
    queryId: string,
    statement: string,
    prepare?: Prepare,
  ): Promise<Lease> => {
    if (request.isGet || settings.has('readonly')) {
      throw refusal(164, 'READONLY', 'A read-only request cannot use a session: send it without session_id, or by POST without readonly');
    }
    const entry = await find(request.session);
    const undo: (() => Promise<void>)[] = [];
    try {
      refuseStaleParameters(entry, request, statement);
      if (prepare) undo.push(await prepare(entry.session));
      undo.push(await remember(entry.session, request, settings));
      await entry.session.run(setStatement([...settingsOf(request, settings, queryId)]));
    } catch (error) {
      await undoAll(undo);
      giveBack(request.session, entry);
      throw error;
    }
    return {
      session: entry.session,
      release: async () => {
        await undoAll(undo);
        giveBack(request.session, entry);
      },
    };
  };

  return {
    get named() {
      return named.size;
    },
    async lease(request, settings, queryId, statement, prepare) {
      if (request.session) return leaseNamed({ ...request, session: request.session }, settings, queryId, statement, prepare);
      const session = openSession(directory);
      try {
        await prepare?.(session);
        if (request.database !== null) await session.run(`USE ${quoteName(request.database)}`);
        await session.run(setStatement([...Object.entries(SESSION_DEFAULTS), ...settingsOf(request, settings, queryId)]));
      } catch (error) {
        session.close();
        throw error;
      }
      return { session, release: async () => session.close() };
    },
    close() {
      for (const id of named.keys()) drop(id);
    },
  };
}

/** A parameter cannot be unset in the engine: one that only an earlier request gave must not be found by a later one. */
function refuseStaleParameters(entry: Named, request: EngineRequest, statement: string): void {
  for (const name of placeholders(statement)) {
    if (entry.seenParameters.has(name) && !request.parameters.has(name)) {
      throw refusal(456, 'UNKNOWN_QUERY_PARAMETER', `Substitution \`${name}\` is not set`);
    }
  }
  for (const name of request.parameters.keys()) entry.seenParameters.add(name);
}

/** Reads what the request's URL is about to change, and returns how to put it back. */
async function remember(
  session: EngineSession,
  request: EngineRequest,
  settings: ReadonlyMap<string, string>,
): Promise<() => Promise<void>> {
  const names = [...settings.keys()];
  const before: [string, string][] = [];
  if (names.length > 0) {
    const list = names.map(quoteText).join(', ');
    const result = await session.run(`SELECT name, value FROM system.settings WHERE name IN (${list})`, 'JSONCompactEachRow');
    for (const line of result.bytes.toString().split('\n')) if (line !== '') before.push(JSON.parse(line) as [string, string]);
  }
  let database: string | null = null;
  if (request.database !== null) {
    const result = await session.run('SELECT currentDatabase()', 'JSONCompactEachRow');
    database = (JSON.parse(result.bytes.toString()) as [string])[0];
    await session.run(`USE ${quoteName(request.database)}`);
  }
  return async () => {
    if (before.length > 0) await session.run(setStatement(before));
    if (database !== null) await session.run(`USE ${quoteName(database)}`);
  };
}

async function undoAll(undo: readonly (() => Promise<void>)[]): Promise<void> {
  for (const step of undo.toReversed()) await step().catch(() => undefined);
}

/** `readonly` comes last: it forbids what stands behind it. */
function* settingsOf(request: EngineRequest, settings: ReadonlyMap<string, string>, queryId: string): Generator<[string, string]> {
  yield ['log_comment', queryId];
  for (const [name, value] of request.parameters) yield [`param_${name}`, value];
  for (const [name, value] of settings) if (name !== 'readonly') yield [name, value];
  const readonly = settings.get('readonly') ?? (request.isGet ? '2' : undefined);
  if (readonly !== undefined) yield ['readonly', readonly];
}

function setStatement(entries: readonly (readonly [string, string])[]): string {
  return `SET ${entries.map(([name, value]) => `${quoteSetting(name)} = ${quoteText(value)}`).join(', ')}`;
}

function quoteSetting(name: string): string {
  if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
    throw refusal(62, 'SYNTAX_ERROR', 'The name of a setting or parameter must be a plain identifier');
  return name;
}
