package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// onText makes a function of texts from one of a text and at most two texts; missing arguments are "".
func onText(name string, f func(v, a, b string) any) function {
	return func(s *state, v any, args []any, named map[string]any) any {
		text, ok := v.(string)
		var list [2]string
		for i, a := range args {
			x, isText := a.(string)
			if ok = ok && isText && i < 2; ok {
				list[i] = x
			}
		}
		if !ok || len(named) > 0 {
			return s.fail("%s of %T with these arguments is not supported", name, v)
		}
		s.make(len(text))
		out := f(text, list[0], list[1])
		if t, ok := out.(string); ok {
			s.make(len(t))
		}
		return out
	}
}

// stripper removes characters from both ends of a text, or from one.
func stripper(left, right bool) function {
	return onText("strip", func(v, chars, _ string) any {
		in := unicode.IsSpace
		if chars != "" {
			in = func(r rune) bool { return strings.ContainsRune(chars, r) }
		}
		if left {
			v = strings.TrimLeftFunc(v, in)
		}
		if right {
			v = strings.TrimRightFunc(v, in)
		}
		return v
	})
}

func capitalise(v string) string {
	for i := range v {
		if i > 0 {
			return strings.ToUpper(v[:i]) + strings.ToLower(v[i:])
		}
	}
	return strings.ToUpper(v)
}

var (
	upper      = onText("upper", func(v, _, _ string) any { return strings.ToUpper(v) })
	lower      = onText("lower", func(v, _, _ string) any { return strings.ToLower(v) })
	capitalize = onText("capitalize", func(v, _, _ string) any { return capitalise(v) })
	replace    = onText("replace", func(v, old, new string) any {
		if old == "" || len(new) > 64 && strings.Count(v, old) > 1000 {
			return v
		}
		return strings.ReplaceAll(v, old, new)
	})
)

var methods = map[string]function{
	"strip": stripper(true, true), "lstrip": stripper(true, false), "rstrip": stripper(false, true),
	"upper": upper, "lower": lower, "capitalize": capitalize, "replace": replace,
	"startswith": onText("startswith", func(v, a, _ string) any { return strings.HasPrefix(v, a) }),
	"endswith":   onText("endswith", func(v, a, _ string) any { return strings.HasSuffix(v, a) }),
	"split": onText("split", func(v, sep, _ string) any {
		parts := strings.Fields(v)
		if sep != "" {
			parts = strings.Split(v, sep)
		}
		out := make([]any, len(parts))
		for i, p := range parts {
			out[i] = p
		}
		return out
	}),
	"items": pairs,
	"keys":  func(s *state, v any, _ []any, _ map[string]any) any { return s.list(v) },
	"get": func(s *state, v any, args []any, _ map[string]any) any {
		d, ok := v.(*Dict)
		if !ok || len(args) < 1 || len(args) > 2 {
			return s.fail("get of %T is not supported", v)
		}
		x := s.item(d, args[0])
		if _, missing := x.(undefined); !missing {
			return x
		}
		if len(args) == 2 {
			return args[1]
		}
		return nil
	},
}

func pairs(s *state, v any, _ []any, _ map[string]any) any {
	d, ok := v.(*Dict)
	if !ok {
		return s.fail("items of %T is not supported", v)
	}
	var out []any
	for _, k := range d.Keys {
		out = append(out, []any{k, d.Values[k]})
	}
	return out
}

var filters = map[string]function{
	"trim": stripper(true, true), "upper": upper, "lower": lower, "capitalize": capitalize, "replace": replace,
	"items": pairs, "length": length, "count": length, "default": otherwise, "d": otherwise,
	"string": func(s *state, v any, _ []any, _ map[string]any) any { return s.text(v) },
	"list":   func(s *state, v any, _ []any, _ map[string]any) any { return s.list(v) },
	"first":  func(s *state, v any, _ []any, _ map[string]any) any { return s.item(s.list(v), 0) },
	"last":   func(s *state, v any, _ []any, _ map[string]any) any { return s.item(s.list(v), -1) },
	"int": func(s *state, v any, _ []any, _ map[string]any) any {
		if n, err := strconv.Atoi(strings.TrimSpace(s.text(v))); err == nil {
			return n
		}
		return 0
	},
	"join": func(s *state, v any, args []any, _ map[string]any) any {
		sep, parts := "", []string{}
		if len(args) == 1 {
			sep = s.text(args[0])
		}
		for _, x := range s.list(v) {
			parts = append(parts, s.text(x))
			s.make(len(parts[len(parts)-1]) + len(sep))
		}
		return strings.Join(parts, sep)
	},
	"tojson": func(s *state, v any, args []any, named map[string]any) any {
		var b bytes.Buffer
		if len(args) > 0 || len(named) > 0 {
			return s.fail("tojson with arguments is not supported")
		}
		s.json(&b, v)
		s.make(b.Len())
		return b.String()
	},
}

func length(s *state, v any, _ []any, _ map[string]any) any {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v)
	case []any, *Dict:
		return len(s.list(v))
	}
	return s.fail("length of %T is not supported", v)
}

func otherwise(s *state, v any, args []any, _ map[string]any) any {
	_, missing := v.(undefined)
	switch {
	case len(args) == 0 || len(args) > 2:
		return s.fail("default with %d arguments", len(args))
	case missing || len(args) == 2 && truth(args[1]) && !truth(v):
		return args[0]
	}
	return v
}

// json writes v as Python's json.dumps does.
func (s *state) json(b *bytes.Buffer, v any) {
	s.spend(1)
	switch v := v.(type) {
	case []any:
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			s.json(b, x)
		}
		b.WriteByte(']')
	case *Dict:
		b.WriteByte('{')
		for i, k := range v.Keys {
			if i > 0 {
				b.WriteString(", ")
			}
			s.json(b, k)
			b.WriteString(": ")
			s.json(b, v.Values[k])
		}
		b.WriteByte('}')
	case nil, bool, int, float64, string:
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			s.fail("tojson: %v", err)
			return
		}
		b.Truncate(b.Len() - 1)
	default:
		s.fail("tojson of %T is not supported", v)
	}
}

// test makes a test from a function of the value.
func test(f func(v any) bool) function {
	return func(_ *state, v any, _ []any, _ map[string]any) any { return f(v) }
}

// is tells whether v has one of the types of T.
func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

var (
	listed   = test(func(v any) bool { return is[[]any](v) || is[string](v) || is[*Dict](v) })
	equalled = func(s *state, v any, args []any, _ map[string]any) any {
		return len(args) == 1 && s.compare("==", v, args[0]).(bool)
	}
)

var tests = map[string]function{
	"defined": test(func(v any) bool { return !is[undefined](v) }), "undefined": test(is[undefined]),
	"none": test(func(v any) bool { return v == nil }), "string": test(is[string]), "mapping": test(is[*Dict]),
	"iterable": listed, "sequence": listed, "boolean": test(is[bool]), "integer": test(is[int]),
	"number": test(func(v any) bool { return is[int](v) || is[float64](v) }),
	"true":   test(func(v any) bool { return v == true }), "false": test(func(v any) bool { return v == false }),
	"equalto": equalled, "eq": equalled,
}

// globals are the functions that templates can call.
var globals = map[string]any{
	"raise_exception": function(func(s *state, _ any, args []any, _ map[string]any) any {
		return s.fail("the template refuses the conversation: %s", fmt.Sprint(args...))
	}),
	"namespace": function(func(_ *state, _ any, _ []any, named map[string]any) any {
		n := namespace{}
		for k, v := range named {
			n[k] = v
		}
		return n
	}),
	"range": function(func(s *state, _ any, args []any, _ map[string]any) any {
		from, to := 0, 0
		switch len(args) {
		case 1:
			to, _ = args[0].(int)
		case 2:
			from, _ = args[0].(int)
			to, _ = args[1].(int)
		default:
			return s.fail("range with %d arguments is not supported", len(args))
		}
		var out []any
		for i := from; i < to && s.spend(1); i++ {
			out = append(out, i)
		}
		return out
	}),
	"strftime_now": function(func(s *state, _ any, args []any, _ map[string]any) any {
		if len(args) != 1 {
			return s.fail("strftime_now with %d arguments", len(args))
		}
		format := strings.NewReplacer("%d", "02", "%b", "Jan", "%B", "January", "%Y", "2006", "%m", "01", "%H", "15",
			"%M", "04", "%S", "05", "%A", "Monday", "%a", "Mon", "%y", "06").Replace(s.text(args[0]))
		if strings.Contains(format, "%") {
			return s.fail("strftime_now(%q) is not supported", args[0])
		}
		return s.now().Format(format)
	}),
}
