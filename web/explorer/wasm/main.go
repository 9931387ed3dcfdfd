//go:build js && wasm

// Command wasm is the explorer's model in a web worker: the worker's global function randfeat(name, request, files...)
// takes and returns JSON, files being Uint8Arrays, and throws nothing: an error is an object with the field "error".
// How far the advisor is it tells the global function progress(stage, done, total).
package main

import (
	"context"
	"encoding/json"
	"syscall/js"
	"time"

	"github.com/randfeat/randfeat/web/explorer/internal/model"
)

func main() {
	m := model.New()
	var told time.Time
	m.Progress = func(stage string, done, total int) {
		if now := time.Now(); now.Sub(told) > 100*time.Millisecond {
			told = now
			js.Global().Call("progress", stage, done, total)
		}
	}
	js.Global().Set("randfeat", js.FuncOf(func(_ js.Value, args []js.Value) any {
		var files [][]byte
		for _, v := range args[2:] {
			b := make([]byte, v.Get("byteLength").Int())
			js.CopyBytesToGo(b, v)
			files = append(files, b)
		}
		out, err := m.Call(context.Background(), args[0].String(), []byte(args[1].String()), files...)
		if err != nil {
			out, _ = json.Marshal(map[string]string{"error": err.Error()}) // strings always encode
		}
		return string(out)
	}))
	select {}
}
