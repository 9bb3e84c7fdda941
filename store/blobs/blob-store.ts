/** Content-addressed storage for values too large for an event. Types only; drivers: directory-blobs.ts, s3-blobs.ts. */
import type { BlobHandle } from '../../events/fields.ts';

export interface BlobStore {
  /**
   * Stores `content` and resolves when it is durable (fsynced, or acknowledged by the object store). Storing the same bytes twice is one blob. Must finish before the
   * event that names the handle is appended. Errors: `disk_full`, `not_writable`, `store_unavailable`.
   */
  put(content: Uint8Array, mediaType: string, signal?: AbortSignal): Promise<BlobHandle>;
  /** Reads a blob back and verifies its hash. Errors: `blob_missing`, `blob_corrupt`. */
  get(sha256: string, signal?: AbortSignal): Promise<Uint8Array>;
  has(sha256: string, signal?: AbortSignal): Promise<boolean>;
  close(): Promise<void>;
}
