/** Limits of one upload; each is named in the answer that it causes. */
export type UploadLimits = {
  /** The lines after decompression (`upload_too_large`). */
  readonly uploadBytes: number;
  /** The events made of them, as they go to the log (`upload_too_large`). */
  readonly eventBytes: number;
  /** One line without its line feed (`trace_too_large`). */
  readonly lineBytes: number;
  /** The part `metadata` (`invalid_metadata`). */
  readonly metadataBytes: number;
  /** A JSON body of the evaluation routes without samples (`body_too_large`). */
  readonly jsonBytes: number;
  /** Longest time for a whole upload, milliseconds (`slow_body`). */
  readonly uploadMs: number;
};

const MIB = 1024 * 1024;

/** What the Prime clients keep to: 256 MiB a request, 64 MiB a line. */
export const UPLOAD_LIMITS: UploadLimits = {
  uploadBytes: 256 * MIB,
  eventBytes: 256 * MIB,
  lineBytes: 64 * MIB,
  metadataBytes: 64 * 1024,
  jsonBytes: 8 * MIB,
  uploadMs: 120_000,
};
