// Package retentive is the memory tool for agents in Go: each call of the model goes to a retentive server.
package retentive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Memory is a memory store on a server. Timeout limits each attempt; zero stands for 30 seconds.
type Memory struct {
	URL, Key, Store string
	Timeout         time.Duration
}

// Result is for the model: anthropic.NewToolResultBlock(block.ID, result.Content, result.IsError).
type Result struct {
	Content string `json:"content"`
	IsError bool   `json:"is_error"`
}

// Call runs a tool_use block: Call(ctx, block.ID, block.Input). A call that is sent again is carried out once.
func (m Memory) Call(ctx context.Context, id string, input json.RawMessage) (Result, error) {
	body, err := json.Marshal(map[string]any{"type": "tool_use", "id": id, "name": "memory", "input": input})
	if err != nil {
		return Result{}, err
	}
	result, status, err := m.post(ctx, body)
	switch status {
	case 0, 429, 502, 503, 504:
		if ctx.Err() == nil {
			time.Sleep(time.Second)
			result, _, err = m.post(ctx, body)
		}
	}
	return result, err
}

func (m Memory) post(ctx context.Context, body []byte) (Result, int, error) {
	if m.Timeout == 0 {
		m.Timeout = 30 * time.Second
	}
	to := m.URL + "/v1/memory_stores/" + url.PathEscape(m.Store) + "/tool"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return Result{}, -1, errors.New("the URL of the memory server is malformed")
	}
	request.Header = http.Header{"X-Api-Key": {m.Key}, "Content-Type": {"application/json"}}
	var found struct {
		Result
		Error struct{ Message string }
	}
	answer, err := (&http.Client{Timeout: m.Timeout, CheckRedirect: never}).Do(request)
	if err == nil {
		defer answer.Body.Close()
		err = json.NewDecoder(answer.Body).Decode(&found)
	}
	if err != nil || (answer.StatusCode == http.StatusOK && found.Content == "") {
		return Result{}, 0, errors.New("no memory server answers at the URL")
	}
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the memory server answered %d: %s", answer.StatusCode, found.Error.Message)
	}
	return found.Result, answer.StatusCode, err
}

// never follows a redirect: the key is for this server only.
func never(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
