/** A certificate for localhost, signed by its own key: X.509 version 3 (RFC 5280) in as little DER as TLS clients accept. */
import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto';

export type Pem = { readonly cert: string; readonly key: string };

const der = (tag: number, ...parts: readonly Uint8Array[]): Buffer => {
  const body = Buffer.concat(parts);
  const length = body.length < 128 ? [body.length] : body.length < 256 ? [0x81, body.length] : [0x82, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
};
const hex = (text: string): Buffer => Buffer.from(text, 'hex');
const SEQUENCE = 0x30;
const ECDSA_SHA256 = der(SEQUENCE, der(0x06, hex('2a8648ce3d040302')));
const COMMON_NAME = der(0x06, hex('550403'));
const SUBJECT_ALT_NAME = der(0x06, hex('551d11'));
const BASIC_CONSTRAINTS = der(0x06, hex('551d13'));

/** Valid from 2020 to 2049 for localhost and 127.0.0.1. */
export function selfSigned(name: string): Pem {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const subject = der(SEQUENCE, der(0x31, der(SEQUENCE, COMMON_NAME, der(0x0c, Buffer.from(name)))));
  const validity = der(SEQUENCE, der(0x17, Buffer.from('200101000000Z')), der(0x17, Buffer.from('491231235959Z')));
  const names = der(SEQUENCE, der(0x82, Buffer.from('localhost')), der(0x87, Buffer.from([127, 0, 0, 1])));
  const extensions = der(
    SEQUENCE,
    der(SEQUENCE, SUBJECT_ALT_NAME, der(0x04, names)),
    der(SEQUENCE, BASIC_CONSTRAINTS, der(0x01, hex('ff')), der(0x04, der(SEQUENCE, der(0x01, hex('ff'))))),
  );
  const body = der(
    SEQUENCE,
    der(0xa0, der(0x02, hex('02'))),
    der(0x02, Buffer.concat([hex('01'), createHash('sha256').update(randomBytes(16)).digest().subarray(0, 8)])),
    ECDSA_SHA256,
    subject,
    validity,
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, extensions),
  );
  const cert = der(SEQUENCE, body, ECDSA_SHA256, der(0x03, hex('00'), sign('sha256', body, privateKey)));
  const lines = cert.toString('base64').match(/.{1,64}/g) as string[];
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}
