/** An export of the server, from a command's side: begun, followed until it is written, removed. */
import { systemClock } from '../../../base/clock.ts';
import { ERROR_CODES, isTapedeckError, TapedeckError, type ErrorCode } from '../../../base/errors.ts';
import type { ExportStatus } from '../../../query/exports/export-jobs.ts';
import { postJson, request, requestJson } from '../../server-request.ts';

export type { ExportStatus };
export type ExportAsked = {
  readonly project: string;
  readonly format: string;
  readonly of?: string;
  readonly filter?: object;
  readonly fields?: readonly string[];
  readonly sort?: readonly string[];
  readonly asOf?: string;
};
export type JobPlace = { readonly url: string; readonly project: string; readonly id: string };
export type FormatInfo = { readonly name: string; readonly about: string; readonly of: string | null };

const FIRST_LOOK_MS = 50;
const LOOK_EVERY_MS = 500;

export async function formatsOf(url: string, signal: AbortSignal): Promise<readonly FormatInfo[]> {
  return (await requestJson<{ formats: FormatInfo[] }>(url, '/v1/exports/formats', { signal })).formats;
}

export function beginExport(url: string, asked: ExportAsked): Promise<ExportStatus> {
  return postJson<ExportStatus>(url, '/v1/exports', asked);
}

/** Resolves when the file is whole. Throws what the job failed with, and `not_found` for one that the server does not have (any more). */
export async function whenWritten(place: JobPlace, signal: AbortSignal, onLook: (status: ExportStatus) => void): Promise<ExportStatus> {
  for (let waitMs = FIRST_LOOK_MS; ; waitMs = Math.min(2 * waitMs, LOOK_EVERY_MS)) {
    const status = await requestJson<ExportStatus>(place.url, pathOf(place), { signal });
    onLook(status);
    if (status.state === 'done') return status;
    if (status.state === 'failed' || status.state === 'cancelled') throw failureOf(status);
    await systemClock.sleep(waitMs, signal);
  }
}

function failureOf({ state, error }: ExportStatus): TapedeckError {
  const code = error !== null && Object.hasOwn(ERROR_CODES, error.code) ? (error.code as ErrorCode) : 'internal';
  return new TapedeckError(code, error?.message ?? `the export was ${state}`);
}

/** The path of the job's file, or of the named one beside it. */
export function filePath(place: JobPlace, beside?: string): string {
  const query = new URLSearchParams({ project: place.project, ...(beside !== undefined && { beside }) });
  return `/v1/exports/${encodeURIComponent(place.id)}/file?${query.toString()}`;
}

/** One that is gone already is removed. */
export async function removeExport(place: JobPlace): Promise<void> {
  await request(place.url, pathOf(place), { method: 'DELETE' }).catch((error: unknown) => {
    if (!isTapedeckError(error, 'not_found')) throw error;
  });
}

function pathOf({ id, project }: JobPlace): string {
  return `/v1/exports/${encodeURIComponent(id)}?${new URLSearchParams({ project }).toString()}`;
}
