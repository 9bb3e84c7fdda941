import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TapedeckError } from '../base/errors.ts';
import { describeSettings, isLoopback, readConfig } from './config.ts';

function problemsOf(env: Record<string, string>): string {
  try {
    readConfig(env);
  } catch (error) {
    assert.ok(error instanceof TapedeckError && error.code === 'config_invalid');
    return error.message;
  }
  return '';
}

test('an empty environment gives the documented defaults', () => {
  const config = readConfig({});
  for (const { key, fallback } of describeSettings()) {
    if (fallback === null || key === 'data') continue;
    const value = (config as Record<string, unknown>)[key];
    assert.equal(Array.isArray(value) ? value.join(',') : String(value), fallback, key);
  }
  assert.equal(config.url, 'http://127.0.0.1:7070');
});

test('all bad settings are named at once', () => {
  const text = problemsOf({ TAPEDECK_PORT: 'x', TAPEDECK_ROLES: 'ingest,dance', TAPEDECK_TYPO: '1' });
  assert.match(text, /TAPEDECK_PORT/);
  assert.match(text, /TAPEDECK_ROLES/);
  assert.match(text, /TAPEDECK_TYPO: there is no such setting/);
});

test('settings that contradict each other are refused', () => {
  assert.match(problemsOf({ TAPEDECK_TLS_CERT: 'cert.pem' }), /TAPEDECK_TLS_KEY/);
  assert.match(problemsOf({ TAPEDECK_LOG: 'kafka' }), /TAPEDECK_KAFKA_BROKERS/);
  assert.match(problemsOf({ TAPEDECK_KAFKA_REPLICATION: '1', TAPEDECK_KAFKA_MIN_ISR: '2' }), /MIN_ISR/);
  assert.match(problemsOf({ TAPEDECK_BLOBS: 's3' }), /TAPEDECK_S3_BUCKET/);
});

test('loopback is recognised, everything else is not', () => {
  for (const host of ['127.0.0.1', '127.3.2.1', '::1', 'localhost']) assert.ok(isLoopback(host), host);
  for (const host of ['0.0.0.0', '::', '10.0.0.1', '127.0.0.1.example.org', '']) assert.ok(!isLoopback(host), host);
});

test('every setting has a meaning', () => {
  for (const { key, about } of describeSettings()) assert.ok(about.length > 10, key);
});
