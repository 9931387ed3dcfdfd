package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

// calls are what the page can ask for.
func (m *Model) calls() map[string]func(request []byte) (any, error) {
	return map[string]func(request []byte) (any, error){
		"registry": func([]byte) (any, error) { return registry(), nil },
		"theory":   serve(m.theory),
		"curves":   serve(m.curves),
		"warm":     serve(m.warm),
		"draw":     serve(DrawRequest.draw),
		"measure":  serve(m.measure),
		"advise":   serve(m.advise),
	}
}

// serve decodes a request; unknown fields are mistakes.
func serve[R, A any](answer func(R) (A, error)) func([]byte) (any, error) {
	return func(request []byte) (any, error) {
		var r R
		dec := json.NewDecoder(bytes.NewReader(request))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&r); err != nil {
			return nil, err
		}
		return answer(r)
	}
}

// Call answers a request of the page: name says what is asked for, request is its JSON, files are what people dropped.
// The answer is JSON, too. The end of ctx ends the advisor, which alone takes long.
func (m *Model) Call(ctx context.Context, name string, request []byte, files ...[]byte) ([]byte, error) {
	m.ctx, m.files = ctx, files
	defer func() { m.ctx, m.files = nil, nil }()
	calls := m.calls()
	answer, ok := calls[name]
	if !ok {
		var names []string
		for n := range calls {
			names = append(names, n)
		}
		sort.Strings(names)
		return nil, fmt.Errorf("nothing answers to %q: want %s", name, strings.Join(names, ", "))
	}
	v, err := answer(request)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
