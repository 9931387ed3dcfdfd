package family

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Encode writes a family as a JSON object with its "name" and parameters.
func Encode(f Family) ([]byte, error) {
	if f == nil {
		return nil, fmt.Errorf("no family: %w", ErrParam)
	}
	body, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("family %s: %w", f.Name(), err)
	}
	name, err := json.Marshal(f.Name())
	if err != nil {
		return nil, err
	}
	head := append([]byte(`{"name":`), name...)
	if string(body) == "{}" {
		return append(head, '}'), nil
	}
	return append(append(head, ','), body[1:]...), nil
}

// Decode reads what Encode writes. Unknown names and fields are errors.
func Decode(b []byte) (Family, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, fmt.Errorf("family: want an object with a name: %w", err)
	}
	var name string
	if err := json.Unmarshal(fields["name"], &name); err != nil {
		return nil, fmt.Errorf("family: no name: %w", ErrParam)
	}
	delete(fields, "name")
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	for _, i := range List() {
		if i.Name != name {
			continue
		}
		f, err := i.decode(body)
		if err != nil {
			return nil, fmt.Errorf("family %s: %w", name, err)
		}
		return f, nil
	}
	return nil, fmt.Errorf("family %q: want one of %s: %w", name, names(), ErrParam)
}

// Parse reads a family from the command line: a name for its default value, or the JSON object of Encode.
func Parse(text string) (Family, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		return Decode([]byte(text))
	}
	b, err := json.Marshal(map[string]string{"name": text})
	if err != nil {
		return nil, err
	}
	return Decode(b)
}

// strict decodes JSON and refuses unknown fields.
func strict(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

func decodeAs[F Family](b []byte) (Family, error) {
	var f F
	err := strict(b, &f)
	return f, err
}

func encodeAll(fs []Family) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for _, f := range fs {
		b, err := Encode(f)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func decodeAll(raw []json.RawMessage) ([]Family, error) {
	var out []Family
	for _, b := range raw {
		f, err := Decode(b)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}
