/** How far an export is: what the server has written, then a bar of the download. Nothing where there is no terminal, but for broken connections. */
import { Presets, SingleBar } from 'cli-progress';
import type { ExportStatus } from './export-job.ts';

export type ExportProgress = {
  readonly written: (status: ExportStatus) => void;
  readonly downloaded: (total: number) => {
    readonly onBytes: (bytes: number) => void;
    readonly onRetry: (reason: string, waitMs: number) => void;
  };
  readonly stop: () => void;
};

export function showExport(): ExportProgress {
  const isTerminal = process.stderr.isTTY;
  const bar = new SingleBar({ format: '{bar} {percentage} % | {value} of {total} bytes | {eta_formatted} left', clearOnComplete: true, hideCursor: true }, Presets.shades_classic);
  const onRetry = (reason: string, waitMs: number): void => void process.stderr.write(`${isTerminal ? '\n' : ''}waiting ${Math.round(waitMs)} ms: ${reason}\n`);
  return {
    written: ({ state, rows, bytes }) => {
      if (!isTerminal) return;
      const counted = rows === null ? '' : `${rows} rows, `;
      process.stderr.write(`\r\x1b[K${state === 'waiting' ? 'waiting for exports before it' : `writing: ${counted}${(bytes / 1e6).toFixed(1)} MB`}`);
    },
    downloaded: (total) => {
      if (!isTerminal) return { onBytes: () => {}, onRetry };
      process.stderr.write('\r\x1b[K');
      bar.start(total, 0);
      return { onBytes: (bytes) => bar.update(bytes), onRetry };
    },
    stop: () => {
      if (!isTerminal) return;
      bar.stop();
      process.stderr.write('\r\x1b[K');
    },
  };
} // prettier-ignore
