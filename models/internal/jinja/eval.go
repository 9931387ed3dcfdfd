package jinja

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Dict is an object with its fields in order.
type Dict struct {
	Keys   []string
	Values map[string]any
}

// Set sets a field.
func (d *Dict) Set(key string, v any) {
	if d.Values == nil {
		d.Values = map[string]any{}
	}
	if _, ok := d.Values[key]; !ok {
		d.Keys = append(d.Keys, key)
	}
	d.Values[key] = v
}

// Values are nil, undefined, bool, int, float64, string, []any, *Dict, namespace and function.
type (
	undefined struct{}
	namespace map[string]any
	// function gets the value before a point or a bar, and the arguments.
	function func(s *state, v any, args []any, named map[string]any) any
)

// Limits of one rendering.
const (
	maxWork  = 1_000_000 // operations; an iteration of a loop counts as its variables
	maxBytes = 1 << 28   // of all texts that are made on the way
)

type state struct {
	vars map[string]any
	out  *strings.Builder
	jump string // break or continue, on its way to the loop
	work int
	made int // bytes
	now  func() time.Time
	err  error
}

// Render renders the template with variables. now is the clock of strftime_now.
func (t *Template) Render(vars map[string]any, now func() time.Time) (string, error) {
	s := &state{vars: maps.Clone(globals), out: new(strings.Builder), now: now}
	maps.Copy(s.vars, vars)
	s.run(t.body)
	return s.out.String(), s.err
}

func (s *state) fail(format string, args ...any) any {
	if s.err == nil {
		s.err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrTemplate)
	}
	return undefined{}
}

// spend bounds the work of a template.
func (s *state) spend(n int) bool {
	if s.work += n; s.work > maxWork {
		s.fail("the template does not end after %d operations", maxWork)
	}
	return s.err == nil
}

// make bounds the texts that a template makes.
func (s *state) make(bytes int) bool {
	if s.made += bytes; s.made > maxBytes {
		s.fail("the template does not end after texts of %d bytes", maxBytes)
	}
	return s.spend(1)
}

func (s *state) write(text string) {
	if s.make(len(text)) {
		s.out.WriteString(text)
	}
}

func (s *state) run(body []stmt) {
	for _, f := range body {
		if s.err != nil || s.jump != "" {
			return
		}
		s.spend(1)
		f(s)
	}
}

func (s *state) get(name string) any {
	s.spend(1)
	if v, ok := s.vars[name]; ok {
		return v
	}
	return undefined{}
}

// loop runs body for every item. What it sets is gone after the loop, except in namespaces.
func (s *state) loop(names []string, v any, when expr, body, none []stmt) {
	outer := s.vars
	defer func() { s.vars = outer }()
	var items []any
	if items = s.list(v); when != nil {
		items = nil
	}
	for _, item := range s.list(v) {
		if when == nil || !s.spend(len(outer)) {
			break
		}
		s.vars = maps.Clone(outer)
		s.bind(names, item)
		if s.err == nil && truth(when(s)) {
			items = append(items, item)
		}
	}
	if len(items) == 0 {
		s.vars = outer
		s.run(none)
	}
	for i, item := range items {
		if !s.spend(len(outer)) {
			return
		}
		s.vars = maps.Clone(outer)
		s.bind(names, item)
		loop := &Dict{}
		loop.Set("index", i+1)
		loop.Set("index0", i)
		loop.Set("first", i == 0)
		loop.Set("last", i == len(items)-1)
		loop.Set("length", len(items))
		loop.Set("revindex", len(items)-i)
		loop.Set("revindex0", len(items)-i-1)
		if i > 0 {
			loop.Set("previtem", items[i-1])
		}
		if i+1 < len(items) {
			loop.Set("nextitem", items[i+1])
		}
		s.vars["loop"] = loop
		s.run(body)
		jump := s.jump
		if s.jump = ""; jump == "break" {
			return
		}
	}
}

func (s *state) bind(names []string, item any) {
	if len(names) == 1 {
		s.vars[names[0]] = item
		return
	}
	list := s.list(item)
	if len(list) != len(names) {
		s.fail("%d values for %d names", len(list), len(names))
		return
	}
	for i, name := range names {
		s.vars[name] = list[i]
	}
}

// list returns what a loop over v sees.
func (s *state) list(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case *Dict:
		var keys []any
		for _, k := range v.Keys {
			keys = append(keys, k)
		}
		return keys
	case string:
		s.spend(len(v))
		if s.err != nil {
			return nil
		}
		var chars []any
		for _, r := range v {
			chars = append(chars, string(r))
		}
		return chars
	case undefined:
		return nil
	}
	s.fail("a loop over %T", v)
	return nil
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case *Dict:
		return len(v.Keys) > 0
	}
	return true
}

// text is what {{ v }} prints.
func (s *state) text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case undefined:
		return ""
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case int:
		return strconv.Itoa(v)
	}
	s.fail("a value of type %T is printed: only texts and whole numbers are", v)
	return ""
}

func (s *state) item(v, key any) any {
	s.spend(1)
	switch v := v.(type) {
	case *Dict:
		if k, ok := key.(string); ok {
			if x, ok := v.Values[k]; ok {
				return x
			}
		}
		return undefined{}
	case namespace:
		if x, ok := v[s.text(key)]; ok {
			return x
		}
		return undefined{}
	case []any:
		i, ok := key.(int)
		if ok && i < 0 {
			i += len(v)
		}
		if ok && i >= 0 && i < len(v) {
			return v[i]
		}
		return undefined{}
	case string:
		if i, ok := key.(int); ok {
			return s.item(s.list(v), i)
		}
		return undefined{}
	case undefined, nil:
		return s.fail("%v of something undefined", key)
	}
	return undefined{}
}

// slice is v[from:to:step] of Python.
func (s *state) slice(v any, parts [3]expr) any {
	text, isText := v.(string)
	var list []any
	runes := []rune(text)
	n := len(runes)
	if !isText {
		list = s.list(v)
		n = len(list)
	}
	bound := [3]*int{}
	for i, e := range parts {
		if e == nil {
			continue
		}
		n, ok := e(s).(int)
		if !ok {
			return s.fail("a slice from or to something that is no whole number")
		}
		bound[i] = &n
	}
	step := 1
	if bound[2] != nil {
		step = *bound[2]
	}
	if step != 1 && step != -1 {
		return s.fail("slices with the step %d are not supported", step)
	}
	clamp := func(p *int, otherwise, low, high int) int {
		if p == nil {
			return otherwise
		}
		i := *p
		if i < 0 {
			i += n
		}
		return max(low, min(i, high))
	}
	if !s.make(4*len(text) + n) {
		return undefined{}
	}
	if step == 1 {
		from, to := clamp(bound[0], 0, 0, n), clamp(bound[1], n, 0, n)
		if to = max(from, to); isText {
			return string(runes[from:to])
		}
		return list[from:to]
	}
	from, to := clamp(bound[0], n-1, -1, n-1), clamp(bound[1], -1, -1, n-1)
	var out []any
	var back []rune
	for i := from; i > to; i-- {
		if isText {
			back = append(back, runes[i])
		} else {
			out = append(out, list[i])
		}
	}
	if isText {
		return string(back)
	}
	return out
}

func (s *state) compare(op string, a, b any) any {
	s.spend(1)
	switch op {
	case "==":
		return equal(a, b)
	case "!=":
		return !equal(a, b)
	case "in":
		return s.contains(b, a)
	case "not in":
		return !s.contains(b, a)
	}
	x, okX := number(a)
	y, okY := number(b)
	if !okX || !okY {
		return s.fail("%T %s %T is not supported", a, op, b)
	}
	switch op {
	case "<":
		return x < y
	case ">":
		return x > y
	case "<=":
		return x <= y
	}
	return x >= y
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func equal(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && a == b
	case nil:
		return b == nil
	case undefined:
		_, ok := b.(undefined)
		return ok
	}
	return false
}

func (s *state) contains(list, v any) bool {
	switch list := list.(type) {
	case string:
		part, ok := v.(string)
		s.make(len(list))
		return ok && strings.Contains(list, part)
	case *Dict:
		key, ok := v.(string)
		_, has := list.Values[key]
		return ok && has
	}
	for _, x := range s.list(list) {
		if s.spend(1); equal(x, v) {
			return true
		}
	}
	return false
}

func (s *state) arithmetic(op string, a, b any) any {
	if op == "~" {
		a, b, op = s.text(a), s.text(b), "+"
	}
	if x, ok := a.(string); ok && op == "+" {
		if y, ok := b.(string); ok && s.make(len(x)+len(y)) {
			return x + y
		}
	}
	if x, ok := a.([]any); ok && op == "+" {
		if y, ok := b.([]any); ok && s.make(16*(len(x)+len(y))) {
			return append(append([]any{}, x...), y...)
		}
	}
	x, okX := a.(int)
	y, okY := b.(int)
	if s.spend(1); okX && okY {
		switch {
		case op == "+":
			return x + y
		case op == "-":
			return x - y
		case op == "*":
			return x * y
		case op == "//" && y > 0 && x >= 0:
			return x / y
		case op == "%" && y > 0:
			return (x%y + y) % y
		}
	}
	return s.fail("%T %s %T is not supported", a, op, b)
}

// call computes the arguments and calls a function.
func (s *state) call(name string, f function, v any, args []argument) any {
	s.spend(1)
	var list []any
	var named map[string]any
	for _, a := range args {
		x := a.value(s)
		if a.name == "" {
			list = append(list, x)
			continue
		}
		if named == nil {
			named = map[string]any{}
		}
		named[a.name] = x
	}
	if s.err != nil {
		return undefined{}
	}
	return f(s, v, list, named)
}
