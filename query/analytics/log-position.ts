/** Finds the position that a request means. */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { storedPositions } from '../../store/columns/stored-positions.ts';
import { formatPosition, type AsOf, type Position } from './as-of.ts';

export type ResolvedPosition = {
  readonly position: Position;
  /**
   * False only for a time after which some partition holds no record yet: a record with an earlier time may still come there, so the same time may then mean
   * more. The position itself never changes.
   */
  readonly settled: boolean;
};

/** Reads positions of one store. */
export type PositionReader = (asOf: AsOf, project: string, options: QueryOptions) => Promise<ResolvedPosition>;

type Row = { readonly p: number; readonly o: string };

/**
 * - latest: everything that is stored now. The index of the log is written last in each block, so what lies before its end is there in full.
 * - a position: itself; `not_ready` when the store has not come so far.
 * - a time: in each partition the records before the first one of the project whose own time is later. Records without a time cut nothing.
 */
export function createPositionReader(store: ColumnStore): PositionReader {
  return async (asOf, project, options) => {
    const stored: Position = new Map([...(await storedPositions(store, options))].map(([partition, next]) => [partition, next - 1]));
    if (asOf.kind === 'latest') return { position: stored, settled: true };
    if (asOf.kind === 'position') {
      required(asOf.position, stored);
      return { position: asOf.position, settled: true };
    }
    const rows =
      stored.size === 0 ? [] : await store.rows<Row>(firstLaterSql([...stored.keys()], asOf.micros), { ...options, params: { project } });
    const later = new Map(rows.map(({ p, o }) => [p, Number(o)]));
    const position = [...stored].map(([partition, end]): [number, number] => [partition, (later.get(partition) ?? end + 1) - 1]);
    return {
      position: new Map(position.filter(([, offset]) => offset >= 0)),
      settled: [...stored.keys()].every((partition) => later.has(partition)),
    };
  };
}

function firstLaterSql(partitions: readonly number[], micros: number): string {
  const time = `fromUnixTimestamp64Micro(toInt64(${micros}), 'UTC')`;
  return partitions
    .map((p) => `SELECT * FROM (SELECT _partition AS p, _offset AS o FROM log_index WHERE _partition = ${p} AND project = {project:String} AND time > ${time} ORDER BY _partition, _offset LIMIT 1)`)
    .join(' UNION ALL ');
} // prettier-ignore

function required(asked: Position, stored: Position): void {
  const ahead = [...asked].filter(([partition, offset]) => offset > (stored.get(partition) ?? -1));
  if (ahead.length === 0) return;
  throw new TapedeckError(
    'not_ready',
    `the store has not come as far as ${formatPosition(new Map(ahead))}: it holds the log up to ${formatPosition(stored)}; ask again later, or for a position it holds`,
    { details: { stored: formatPosition(stored) } },
  );
}
