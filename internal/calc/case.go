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

// Case is one question to the calculator, and perhaps the answer to compare with.
type Case struct {
	ID       string
	Name     string // what stands before " | " in the formula
	Inputs   json.RawMessage
	Expected json.RawMessage // nil if the case has none
	RTol     float64
	ATol     float64
}

// Reader reads cases from any of: the golden file {"schema": 1, "cases": […]}, a list of cases, or cases one after
// the other (NDJSON). It holds one case at a time except for the golden form.
type Reader struct {
	dec     *json.Decoder
	started bool
	inList  bool
	queue   []json.RawMessage
	count   int
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

// Unwrap gives the cause.
func (e *CaseError) Unwrap() error { return e.Err }

// Next returns the next case, io.EOF after the last one, a *[CaseError] for a case that is malformed, and any other
// error when the input is not JSON of a known form: nothing can be read after that.
func (r *Reader) Next() (Case, error) {
	raw, err := r.nextRaw()
	if err != nil {
		return Case{}, err
	}
	r.count++
	return parseCase(raw, r.count)
}

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

// startsList peeks at the first byte that is not space.
func (r *Reader) startsList() (bool, error) {
	// More fills the decoder's buffer up to the first token and says whether it is a closing bracket.
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

func (r *Reader) expectEnd() error {
	var extra json.RawMessage
	if err := r.dec.Decode(&extra); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more JSON follows the list of cases, at byte %d", r.dec.InputOffset())
	}
	return io.EOF
}

// syntax adds the place to a JSON error; the end of the input stays io.EOF.
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

// goldenCases recognises the golden file by its "cases".
func goldenCases(raw json.RawMessage) ([]json.RawMessage, bool, error) {
	var file struct {
		Schema *int              `json:"schema"`
		Cases  []json.RawMessage `json:"cases"`
	}
	if !bytes.Contains(raw, []byte(`"cases"`)) {
		return nil, false, nil
	}
	if err := json.Unmarshal(raw, &file); err != nil || file.Cases == nil {
		return nil, false, nil // some case that contains the word; parseCase judges it
	}
	if file.Schema == nil || *file.Schema != Schema {
		return nil, true, fmt.Errorf("the file must say \"schema\": %d", Schema)
	}
	return file.Cases, true, nil
}

// parseCase reads one case; position names a case without an id. Keys that are no part of the schema are left alone:
// a misspelt one cannot hide an error, since what it replaces is then missing.
func parseCase(raw json.RawMessage, position int) (Case, error) {
	id := fmt.Sprintf("#%d", position)
	bad := func(format string, args ...any) (Case, error) {
		return Case{}, &CaseError{ID: id, Err: fmt.Errorf(format, args...)}
	}
	parts, err := readObject(raw)
	if err != nil {
		return bad("a case: %w", err)
	}
	var text struct {
		ID      *string  `json:"id"`
		Formula *string  `json:"formula"`
		RTol    *float64 `json:"rtol"`
		ATol    *float64 `json:"atol"`
	}
	if part, ok := parts["id"]; ok {
		if err := json.Unmarshal(part, &text.ID); err != nil || text.ID == nil {
			return bad("\"id\": got %s, want a string", clip(part))
		}
		id = *text.ID
	}
	if part, ok := parts["formula"]; !ok || json.Unmarshal(part, &text.Formula) != nil || text.Formula == nil {
		return bad("\"formula\" must be a string that starts with a name of randfeat theory list")
	}
	for key, dst := range map[string]**float64{"rtol": &text.RTol, "atol": &text.ATol} {
		if part, ok := parts[key]; ok {
			if err := json.Unmarshal(part, dst); err != nil || *dst == nil || **dst < 0 {
				return bad("%q: got %s, want a number ≥ 0", key, clip(part))
			}
		}
	}
	c := Case{ID: id, Inputs: parts["inputs"], Expected: parts["expected"]}
	c.Name, _, _ = strings.Cut(*text.Formula, " | ")
	c.Name = strings.TrimSpace(c.Name)
	if text.RTol != nil {
		c.RTol = *text.RTol
	}
	if text.ATol != nil {
		c.ATol = *text.ATol
	}
	return c, nil
}
