<?php

declare(strict_types=1);

/** The memory tool for agents in PHP: each call of the model goes to a retentive server. */
final class RetentiveMemory
{
    /** A memory store on a server. `timeout` limits each attempt, in seconds. */
    public function __construct(
        private string $url,
        private string $key,
        private string $store,
        private float $timeout = 30,
    ) {
    }

    /** The tool_result block of a tool_use block. A call that is sent again is carried out once. */
    public function call(string $id, array|object $input): array
    {
        $block = ['type' => 'tool_use', 'id' => $id, 'name' => 'memory', 'input' => (object) $input];
        $body = json_encode($block, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION);
        [$status, $answer] = $this->post($body);
        if (in_array($status, [0, 429, 502, 503, 504], true)) {
            sleep(1);
            [$status, $answer] = $this->post($body);
        }
        return match ($status) {
            200 => $answer,
            0 => throw new RuntimeException('no memory server answers at the URL'),
            default => throw new RuntimeException("the memory server answered $status: " . ($answer['error']['message'] ?? '')),
        };
    }

    private function post(string $body): array
    {
        $curl = curl_init($this->url . '/v1/memory_stores/' . rawurlencode($this->store) . '/tool');
        curl_setopt_array($curl, [
            CURLOPT_POSTFIELDS => $body,
            CURLOPT_HTTPHEADER => ["x-api-key: {$this->key}", 'content-type: application/json', 'expect:'],
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT_MS => (int) ($this->timeout * 1000),
        ]);
        $answer = json_decode((string) curl_exec($curl), true);
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        $is_whole = curl_errno($curl) === 0 && is_array($answer) && ($status !== 200 || is_string($answer['content'] ?? null));
        return [$is_whole ? $status : 0, $answer];
    }
}
