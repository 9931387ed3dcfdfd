package cell

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var seeds = []string{`{"a":1,"b":[true,null,"x"]}`, `[]`, `{}`, ` [ 1 , -0.5e+3 ] `, `"\u00e9\ud83d\ude00"`, `"\ud800"`,
	"\"\xff\"", `01`, `1.`, `-`, `1e`,
	`truee`, `nul`, `nullx`, `{"a":1,}`, `[1,]`, `{"a" 1}`, `{a:1}`, `"abc`, "\"\n\"", `"\x"`,
	`[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]`, ``, ` `, `1 2`, `1-2`,
	`{"a":1}{}`, "\uFEFF1", `"\"`, `[1 2]`, `+1`, `.5`, `Infinity`}

// scan reads a value in the ways that callers do.
func scan(b []byte) (err error) {
	s := JSONScanner{Data: b}
	if err := s.Ignore(); err != nil {
		return err
	}
	return s.End()
}

func check(t *testing.T, b []byte) {
	err := scan(b)
	var e *JSONError
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("%q: %v", b, err)
	}
	if e != nil && (e.Pos < 0 || e.Pos > len(b) || (e.Want == "") == (e.Wrong == "")) {
		t.Fatalf("%q: %+v", b, e)
	}
	if valid := json.Valid(b); valid != (err == nil) && !(valid && e.Wrong == Deep) {
		t.Fatalf("%q: %v, encoding/json says %v", b, err, valid)
	}
	// A flat object or a scalar has the texts that encoding/json finds.
	s := JSONScanner{Data: b}
	var keys []string
	texts := map[string]string{}
	err = s.Object(func(key []byte, at int) error {
		if b[at] != '"' {
			t.Fatalf("%q: no key at %d", b, at)
		}
		name := string(key)
		keys = append(keys, name)
		text, err := s.Scalar()
		if text == nil {
			texts[name] = "null"
		} else {
			texts[name] = string(text)
		}
		return err
	})
	if err != nil || s.End() != nil {
		return
	}
	var want map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&want); err != nil {
		t.Fatalf("%q was taken: %v", b, err)
	}
	if len(want) != len(texts) {
		t.Fatalf("%q: keys %q, want %v", b, keys, want)
	}
	for k, v := range want {
		text := "null"
		switch v := v.(type) {
		case string:
			text = v
		case json.Number:
			text = v.String()
		case bool:
			text = map[bool]string{false: "false", true: "true"}[v]
		}
		if texts[k] != text {
			t.Fatalf("%q: %q is %q, want %q", b, k, texts[k], text)
		}
	}
}

func TestScan(t *testing.T) {
	for _, s := range seeds {
		check(t, []byte(s))
	}
	for text, want := range map[string]JSONError{
		`{"a":[1,2}`: {Pos: 9, Want: "a comma or ]"}, `{"a":tru}`: {Pos: 5,
			Want: "a number, string, true, false or null"},
		`{"a":"b`: {Pos: 5, Wrong: Unclosed}, `["\q"]`: {Pos: 1, Wrong: Escape}, "[\"a\tb\"]": {Pos: 3, Wrong: Control},
		`{"a"}`: {Pos: 4, Want: "a colon"}, `{"a":1 "b":2}`: {Pos: 7, Want: "a comma or }"},
		`[1,`:  {Pos: 3, Want: "a value"},
		`{} x`: {Pos: 3, Want: "the end"}, strings.Repeat("[", 40): {Pos: 17, Wrong: Deep},
		`[1.5.2]`: {Pos: 1, Want: "a number, string, true, false or null"},
	} {
		var e *JSONError
		if err := scan([]byte(text)); !errors.As(err, &e) || *e != want {
			t.Errorf("%s: %+v, want %+v", text, err, want)
		}
	}
	s := JSONScanner{Data: []byte(`{"a":{}}`)}
	var e *JSONError
	err := s.Object(func([]byte, int) error { _, err := s.Scalar(); return err })
	if !errors.As(err, &e) || e.Wrong != Nested || e.Pos != 5 {
		t.Errorf("%v", err)
	}
}

// FuzzScan: the same texts are JSON as for encoding/json, with the same strings.
func FuzzScan(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}
