/** What an export format is. Formats of other lanes are handed in by whoever wires the server. */
import type { ListRequest } from '../lists/list-request.ts';
import type { WantedPosition } from '../positions/log-position.ts';

export type ExportRequest = {
  readonly project: string;
  readonly list: ListRequest;
  readonly wanted: WantedPosition;
};
export type ExportSink = {
  /** Resolves when more can be taken. */
  write(bytes: Uint8Array): Promise<void>;
  /** For the progress: rows, lines or episodes that are written. */
  count(rows: number): void;
  /** A second, small file of the same job, such as metadata.json: whole at once, downloaded by its name. */
  beside(name: string, bytes: Uint8Array): Promise<void>;
};
export type ExportReport = {
  /** The log position of what was written; null where the format reads single rollouts as they are. */
  readonly asOf: string | null;
  /** What the format has no place for, with how often it was met; null: the format cannot hold it and it was not counted. */
  readonly left: Readonly<Record<string, number | null>>;
  /** What was left out as a whole, by name. */
  readonly incomplete: readonly string[];
};
export type ExportFormat = {
  readonly name: string;
  readonly about: string;
  readonly extension: string;
  readonly mediaType: string;
  /** The resource whose rows, or whose conversations, it writes; null: any. */
  readonly of: 'traces' | 'groups' | 'rollouts' | null;
  write(request: ExportRequest, sink: ExportSink, signal: AbortSignal): Promise<ExportReport>;
};
