package calc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Schema is the version of the file format that [Reader] understands.
const Schema = 1

// Case is one question to the calculator, with the expected answer if there is one.
type Case struct {
	ID       string
	Name     string // the name of the entry: the text before " | " in the formula
	Inputs   json.RawMessage
	Expected json.RawMessage // nil if the case has none
	RTol     float64
	ATol     float64
}

// Reader reads cases from a stream in one of three forms: the golden file {"schema": 1, "cases": […]}, a list of cases,
// or cases one after the other (NDJSON). It holds one case in memory at a time, except for the golden form, which it
// reads whole.
type Reader struct {
	dec     *json.Decoder
	started bool              // the form has been recognised
	inList  bool              // the decoder is inside a list of cases
	queue   []json.RawMessage // cases of the golden form that Next has not returned yet
	count   int               // cases returned; names those without an id
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{dec: json.NewDecoder(bufio.NewReaderSize(r, 1<<16))}
}

// CaseError is an error in one case; the cases after it can still be read.
type CaseError struct {
	ID  string
	Err error
}

func (e *CaseError) Error() string { return fmt.Sprintf("case %s: %v", e.ID, e.Err) }

// Unwrap returns the cause.
func (e *CaseError) Unwrap() error { return e.Err }

// Next returns the next case, or io.EOF after the last one. The error is a *[CaseError] if this case is malformed; Next
// can then be called again. Any other error means that the input is not JSON of a known form, and nothing more can be
// read.
func (r *Reader) Next() (Case, error) {
	raw, err := r.nextRaw()
	if err != nil {
		return Case{}, err
	}
	r.count++
	return parseCase(raw, r.count)
}

// nextRaw returns the next case undecoded. The first call recognises the form of the input.
func (r *Reader) nextRaw() (json.RawMessage, error) {
	if len(r.queue) > 0 {
		raw := r.queue[0]
		r.queue = r.queue[1:]
		return raw, nil
	}
	if r.inList {
		if r.dec.More() {
			return r.decode()
		}
		if _, err := r.dec.Token(); err != nil {
			return nil, r.syntax(err)
		}
		r.inList = false
		return nil, r.expectEnd()
	}
	if !r.started {
		r.started = true
		list, err := r.startsList()
		if err != nil {
			return nil, err
		}
		if list {
			if _, err := r.dec.Token(); err != nil {
				return nil, r.syntax(err)
			}
			r.inList = true
			return r.nextRaw()
		}
	}
	raw, err := r.decode()
	if err != nil {
		return nil, err
	}
	cases, ok, err := goldenCases(raw)
	if err != nil || !ok {
		return raw, err
	}
	r.queue = cases
	return r.nextRaw()
}

// startsList reports whether the input begins with a list, without consuming anything.
func (r *Reader) startsList() (bool, error) {
	// More fills the decoder's buffer up to the first token, which is then among the buffered bytes.
	if !r.dec.More() {
		return false, nil
	}
	first, err := bufio.NewReader(r.dec.Buffered()).ReadString(0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return strings.HasPrefix(strings.TrimLeft(first, " \t\r\n"), "["), nil
}

func (r *Reader) decode() (json.RawMessage, error) {
	var raw json.RawMessage
	if err := r.dec.Decode(&raw); err != nil {
		return nil, r.syntax(err)
	}
	return raw, nil
}

// expectEnd returns io.EOF if nothing follows the list of cases.
func (r *Reader) expectEnd() error {
	var extra json.RawMessage
	if err := r.dec.Decode(&extra); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more JSON follows the list of cases, at byte %d", r.dec.InputOffset())
	}
	return io.EOF
}

// syntax adds the position to a JSON error. The end of the input stays io.EOF, unless a list is still open.
func (r *Reader) syntax(err error) error {
	if errors.Is(err, io.EOF) {
		if r.inList {
			return fmt.Errorf("the list of cases is not closed")
		}
		return io.EOF
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the JSON ends in the middle of a value, at byte %d", r.dec.InputOffset())
	}
	var bad *json.SyntaxError
	if errors.As(err, &bad) {
		return fmt.Errorf("not JSON near byte %d: %w", r.dec.InputOffset(), err)
	}
	return err
}

// goldenCases returns the cases of a golden file, which it recognises by its list "cases".
func goldenCases(raw json.RawMessage) ([]json.RawMessage, bool, error) {
	var file struct {
		Schema *int              `json:"schema"`
		Cases  []json.RawMessage `json:"cases"`
	}
	if !bytes.Contains(raw, []byte(`"cases"`)) {
		return nil, false, nil
	}
	if err := json.Unmarshal(raw, &file); err != nil || file.Cases == nil {
		return nil, false, nil // a single case that contains the word; parseCase judges it
	}
	if file.Schema == nil || *file.Schema != Schema {
		return nil, true, fmt.Errorf("the file must say \"schema\": %d", Schema)
	}
	return file.Cases, true, nil
}

// parseCase decodes one case; position names a case without an id. It ignores keys outside the schema. A misspelt key
// cannot hide an error: a required one is then missing, and a missing tolerance is 0, the strictest.
func parseCase(raw json.RawMessage, position int) (Case, error) {
	id := fmt.Sprintf("#%d", position)
	bad := func(format string, args ...any) (Case, error) {
		return Case{}, &CaseError{ID: id, Err: fmt.Errorf(format, args...)}
	}
	parts, err := readObject(raw)
	if err != nil {
		return bad("a case: %w", err)
	}
	var name, formula *string
	if part, ok := parts["id"]; ok {
		if err := json.Unmarshal(part, &name); err != nil || name == nil {
			return bad("\"id\": got %s, want a string", clip(part))
		}
		id = *name
	}
	if part, ok := parts["formula"]; !ok || json.Unmarshal(part, &formula) != nil || formula == nil {
		return bad("\"formula\" must be a string that starts with a name of randfeat theory list")
	}
	c := Case{ID: id, Inputs: parts["inputs"], Expected: parts["expected"]}
	for _, t := range []struct {
		key string
		to  *float64
	}{{"rtol", &c.RTol}, {"atol", &c.ATol}} {
		if part, ok := parts[t.key]; ok {
			var v *float64
			if err := json.Unmarshal(part, &v); err != nil || v == nil || *v < 0 {
				return bad("%q: got %s, want a number ≥ 0", t.key, clip(part))
			}
			*t.to = *v
		}
	}
	c.Name, _, _ = strings.Cut(*formula, " | ")
	c.Name = strings.TrimSpace(c.Name)
	return c, nil
}
