// Runs the call of each line of standard input, and prints its result as a line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"example.com/memory/retentive"
)

type request struct {
	URL, Key, Store string
	Timeout         float64
	Block           struct {
		ID    string
		Input json.RawMessage
	}
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var sent request
		if err := json.Unmarshal(line, &sent); err != nil {
			panic(err)
		}
		memory := retentive.Memory{URL: sent.URL, Key: sent.Key, Store: sent.Store}
		memory.Timeout = time.Duration(sent.Timeout * float64(time.Second))
		var printed any
		printed, err = memory.Call(context.Background(), sent.Block.ID, sent.Block.Input)
		if err != nil {
			printed = map[string]string{"failed": err.Error()}
		}
		text, _ := json.Marshal(printed)
		fmt.Println(string(text))
	}
}
