// Package namedjson is the JSON form of a value that is chosen by name, {"name":"hadamard","k":2}. It reads
// strictly: names of fields are case-sensitive, and unknown fields, repeated fields and trailing data are
// errors. (encoding/json accepts "K" for k, silently takes the last of two equal fields, and stops after the
// first value of a stream.)
package namedjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// ErrFields marks JSON that is not an object of the expected fields.
var ErrFields = errors.New("invalid JSON fields")

// Encode writes the JSON object of v, a struct, with the field "name" before its own.
func Encode(name string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"name":`), quoted...)
	if string(body) == "{}" {
		return append(out, '}'), nil
	}
	return append(append(out, ','), body[1:]...), nil
}

// Split separates the field "name" from the object of the others. The name is empty if there is none.
func Split(data []byte) (name string, body []byte, err error) {
	var fields map[string]json.RawMessage
	if err := Decode(data, &fields); err != nil {
		return "", nil, err
	}
	if fields == nil {
		return "", nil, fmt.Errorf("null, want an object: %w", ErrFields)
	}
	if raw, ok := fields["name"]; ok {
		if err := json.Unmarshal(raw, &name); err != nil {
			return "", nil, fmt.Errorf("\"name\" is %s, want a string: %w", raw, ErrFields)
		}
	}
	delete(fields, "name")
	body, err = json.Marshal(fields)
	return name, body, err
}

// Decode reads one JSON value into v, strictly, at every depth. Types with their own UnmarshalJSON check their
// own fields.
func Decode(data []byte, v any) error {
	if err := unique(data); err != nil {
		return err
	}
	if err := known(data, reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return wrap(err)
	}
	return nil
}

// wrap marks an error with ErrFields; errors of types that decode themselves keep their own marks.
func wrap(err error) error {
	if errors.Is(err, ErrFields) {
		return err
	}
	return fmt.Errorf("%w: %w", err, ErrFields)
}

// unique refuses objects with a repeated field, and data after the first value.
func unique(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var open []map[string]bool // fields of the enclosing objects; nil for lists
	key := false               // the next token is a field name or the end of an object
	for done := false; ; {
		t, err := dec.Token()
		if done && err == io.EOF {
			return nil
		}
		switch {
		case done:
			return fmt.Errorf("more after the JSON value: %w", ErrFields)
		case err == io.EOF:
			return wrap(io.ErrUnexpectedEOF)
		case err != nil:
			return wrap(err)
		}
		switch d, isDelim := t.(json.Delim); {
		case isDelim && d == '{':
			open, key = append(open, map[string]bool{}), true
			continue
		case isDelim && d == '[':
			open, key = append(open, nil), false
			continue
		case isDelim:
			open = open[:len(open)-1]
		case key:
			name := t.(string)
			fields := open[len(open)-1]
			if fields[name] {
				return fmt.Errorf("field %q is there twice: %w", name, ErrFields)
			}
			fields[name], key = true, false
			continue
		}
		done = len(open) == 0
		key = !done && open[len(open)-1] != nil
	}
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// known refuses fields that a struct does not have, by their exact names.
func known(data []byte, t reflect.Type) error {
	if t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return known(data, t.Elem())
	case reflect.Slice, reflect.Array:
		if k := t.Elem().Kind(); k != reflect.Struct && k != reflect.Slice && k != reflect.Pointer {
			return nil
		}
		var items []json.RawMessage
		if json.Unmarshal(data, &items) != nil {
			return nil // json.Unmarshal in Decode reports it
		}
		for _, item := range items {
			if err := known(item, t.Elem()); err != nil {
				return err
			}
		}
	case reflect.Struct:
		var given map[string]json.RawMessage
		if json.Unmarshal(data, &given) != nil {
			return nil
		}
		names, types := fieldsOf(t)
		for name, value := range given {
			field, ok := types[name]
			if !ok && len(names) == 0 {
				return fmt.Errorf("unknown field %q; it has no fields: %w", name, ErrFields)
			}
			if !ok {
				return fmt.Errorf("unknown field %q; valid fields: %s: %w", name, strings.Join(names, ", "), ErrFields)
			}
			if err := known(value, field); err != nil {
				return err
			}
		}
	}
	return nil
}

// fieldsOf returns the JSON names of the fields of a struct, in order, and their types.
func fieldsOf(t reflect.Type) (names []string, types map[string]reflect.Type) {
	types = map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || f.Anonymous && name == "" {
			continue
		}
		name = cmp.Or(name, f.Name)
		names, types[name] = append(names, name), f.Type
	}
	return names, types
}
