//go:build js && wasm

// Command wasm is the explorer's model in a web worker: the worker's global function randfeat(name, request, files...)
// takes and returns JSON, files being Uint8Arrays, and throws nothing: an error is an object with the field "error".
package main

import (
	"encoding/json"
	"syscall/js"

	"github.com/randfeat/randfeat/web/explorer/model"
)

func main() {
	m := model.New()
	js.Global().Set("randfeat", js.FuncOf(func(_ js.Value, args []js.Value) any {
		var files [][]byte
		for _, v := range args[2:] {
			b := make([]byte, v.Get("byteLength").Int())
			js.CopyBytesToGo(b, v)
			files = append(files, b)
		}
		out, err := m.Call(args[0].String(), []byte(args[1].String()), files...)
		if err != nil {
			out, _ = json.Marshal(map[string]string{"error": err.Error()}) // strings always encode
		}
		return string(out)
	}))
	select {}
}
