/** The blob store that the settings name. */
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import { openDirectoryBlobs } from '../../store/blobs/directory-blobs.ts';
import { paths, type Config } from '../config.ts';

export async function openBlobs(config: Config, clock: Clock, random: Random): Promise<BlobStore> {
  if (config.blobs === 'directory') return openDirectoryBlobs({ directory: paths(config).blobs, clock, random });
  const { openS3Blobs } = await import('../../store/blobs/s3-blobs.ts'); // the SDK is large: loaded only when used
  const { s3AccessKey, s3SecretKey } = config;
  return openS3Blobs({
    bucket: config.s3Bucket as string, // checked with the settings
    region: config.s3Region,
    ...(config.s3Endpoint === undefined ? {} : { endpoint: config.s3Endpoint }),
    ...(s3AccessKey !== undefined && s3SecretKey !== undefined
      ? { credentials: { accessKeyId: s3AccessKey, secretAccessKey: s3SecretKey } }
      : {}),
    clock,
    random,
  });
}
