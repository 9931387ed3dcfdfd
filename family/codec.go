package family

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/randfeat/randfeat/internal/namedjson"
	"github.com/randfeat/randfeat/internal/suggest/similar"
)

// errName is returned by Parse for a family without a name, or with one that no family has.
var errName = errors.New("unknown family")

// Encode writes a family as a JSON object with its "name" and parameters.
func Encode(f Family) ([]byte, error) {
	if f == nil {
		return nil, fmt.Errorf("no family: %w", ErrParam)
	}
	b, err := namedjson.Encode(f.Name(), f)
	if err != nil {
		return nil, fmt.Errorf("family %s: %w", f.Name(), err)
	}
	return b, nil
}

// decode reads the output of Encode. The error of a missing or unknown name lists the valid ones. Anything else that is
// wrong (not a JSON object; unknown, repeated or unreadable fields) is an ErrParam. Names of fields are case-sensitive.
func decode(b []byte) (Family, error) {
	name, body, err := namedjson.Split(b)
	if err != nil {
		return nil, fmt.Errorf("family: want a JSON object with a \"name\": %w", asParam(err))
	}
	for _, i := range List() {
		if i.Name != name {
			continue
		}
		f, err := i.decode(body)
		if err != nil {
			return nil, fmt.Errorf("family %s: %w", name, asParam(err))
		}
		return f, nil
	}
	if name == "" {
		return nil, fmt.Errorf("family: no name; want one of %s: %w", names(), errName)
	}
	return nil, fmt.Errorf("%w %q%s; want one of %s", errName, name, similar.Hint(name, Names()), names())
}

// asParam marks errors of fields as ErrParam. Errors of a family inside this one are marked already.
func asParam(err error) error {
	if errors.Is(err, errName) || errors.Is(err, ErrParam) {
		return err
	}
	return fmt.Errorf("%w: %w", err, ErrParam)
}

// Parse reads a family from the command line: a name for its default value, or the JSON object of Encode.
func Parse(text string) (Family, error) {
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "{") {
		return decode([]byte(text))
	}
	b, err := namedjson.Encode(text, struct{}{})
	if err != nil {
		return nil, err
	}
	return decode(b)
}

// decodeAs reads the parameters of a family of type F.
func decodeAs[F Family](b []byte) (Family, error) {
	var f F
	err := namedjson.Decode(b, &f)
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
		f, err := decode(b)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}
