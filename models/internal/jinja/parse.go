// Package jinja renders the part of Jinja that chat templates of models use, as transformers does (trim_blocks and
// lstrip_blocks are on). What it does not know (macros, imports, other filters) is refused by name when a template is
// parsed. Rendering is bounded: a template comes with a model, and nobody reads it first.
//
// Files: parse.go turns a template into closures, eval.go has values and operators, builtin.go filters, tests,
// methods and functions.
package jinja

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrTemplate means that a template is damaged, uses something unknown, or refused the conversation.
var ErrTemplate = errors.New("not a usable chat template")

// Template is a parsed template. It is safe for concurrent use.
type Template struct{ body []stmt }

type (
	expr func(*state) any
	stmt func(*state)
)

// maxDepth bounds the nesting of expressions and blocks.
const maxDepth = 100

type parser struct {
	parts []part // text and tags in turn
	toks  []string
	at    int // of toks
	depth int
	err   error
}

// part is text, an output {{ }} or a statement {% %}.
type part struct {
	kind byte // 't', '{' or '%'
	text string
}

var (
	// A tag ends at the first }} or %} outside of quotes.
	tags = regexp.MustCompile(`(?s)\{\{(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^'"])*?\}\}|` +
		`\{%(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^'"])*?%\}|\{#.*?#\}`)
	scanner = regexp.MustCompile(`(?s)^\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|\d+\.\d+|\d+|==|!=|<=|>=|//|\*\*|` +
		`[-+*/%~<>=.,:|(){}\[\]])`)
)

// Parse reads a template.
func Parse(text string) (*Template, error) {
	p := &parser{parts: split(text)}
	body, end := p.block(nil)
	if p.err == nil && end != "" {
		p.fail("%s without a beginning", end)
	}
	return &Template{body}, p.err
}

// split divides a template into its parts. A line end behind a statement is dropped, and so are blanks between the
// beginning of a line and a statement.
func split(text string) (parts []part) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	trimNext, newline := false, false
	add := func(s string, tag string) {
		switch {
		case trimNext:
			s = strings.TrimLeft(s, " \t\n\r")
		case newline:
			s = strings.TrimPrefix(s, "\n")
		}
		if strings.HasPrefix(tag, "{") && len(tag) > 2 && tag[2] == '-' {
			s = strings.TrimRight(s, " \t\n\r")
		} else if len(tag) > 2 && tag[1] != '{' && tag[2] != '+' {
			line := strings.TrimRight(s, " \t")
			if line == "" && (len(parts) == 0 || newline) || strings.HasSuffix(line, "\n") {
				s = line
			}
		}
		if s != "" {
			parts = append(parts, part{'t', s})
		}
	}
	for text != "" {
		m := tags.FindStringIndex(text)
		if m == nil {
			break
		}
		tag := text[m[0]:m[1]]
		add(text[:m[0]], tag)
		trimNext, newline = tag[len(tag)-3] == '-', tag[1] != '{'
		if tag[1] != '#' {
			parts = append(parts, part{tag[1], strings.Trim(strings.TrimPrefix(tag[2:len(tag)-2], "+"), "-")})
		}
		text = text[m[1]:]
	}
	add(strings.TrimSuffix(text, "\n"), "")
	return parts
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrTemplate)
	}
}

// begin divides a tag into its words and signs.
func (p *parser) begin(s string) {
	p.toks, p.at = nil, 0
	for strings.TrimSpace(s) != "" {
		m := scanner.FindStringSubmatchIndex(s)
		if m == nil {
			p.fail("%.20q is not an expression", strings.TrimSpace(s))
			return
		}
		p.toks, s = append(p.toks, s[m[2]:m[3]]), s[m[1]:]
	}
}

func (p *parser) peek() string {
	if p.at < len(p.toks) && p.err == nil {
		return p.toks[p.at]
	}
	return ""
}

func (p *parser) take() string {
	s := p.peek()
	p.at++
	return s
}

func (p *parser) accept(s ...string) bool {
	for i, t := range s {
		if p.at+i >= len(p.toks) || p.toks[p.at+i] != t || p.err != nil {
			return false
		}
	}
	p.at += len(s)
	return true
}

func (p *parser) want(s string) {
	if !p.accept(s) {
		p.fail("%q before %q", p.peek(), s)
	}
}

func (p *parser) name() string {
	s := p.take()
	if s == "" || !(s[0] == '_' || s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z') {
		p.fail("%q where a name is wanted", s)
	}
	return s
}

func (p *parser) done() {
	if s := p.peek(); s != "" {
		p.fail("%q is not supported here", s)
	}
}

// block parses parts up to a statement of ends, which it returns, or to the end of the template.
func (p *parser) block(ends []string) (body []stmt, end string) {
	if p.depth++; p.depth > maxDepth {
		p.fail("blocks in blocks, more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	for len(p.parts) > 0 && p.err == nil {
		part := p.parts[0]
		p.parts = p.parts[1:]
		switch part.kind {
		case 't':
			body = append(body, func(s *state) { s.write(part.text) })
		case '{':
			p.begin(part.text)
			e := p.expr()
			p.done()
			body = append(body, func(s *state) { s.write(s.text(e(s))) })
		default:
			p.begin(part.text)
			word := p.take()
			if slices.Contains(ends, word) {
				return body, word
			}
			body = append(body, p.statement(word))
		}
	}
	if ends != nil {
		p.fail("no %s", ends[len(ends)-1])
	}
	return body, ""
}

func (p *parser) statement(word string) stmt {
	switch word {
	case "if":
		return p.conditional()
	case "for":
		return p.loop()
	case "set":
		return p.assignment()
	case "break", "continue":
		p.done()
		return func(s *state) { s.jump = word }
	case "generation": // marks the answers, for training
		body, _ := p.block([]string{"endgeneration"})
		return func(s *state) { s.run(body) }
	}
	p.fail("{%% %s %%} is not supported", word)
	return nil
}

func (p *parser) conditional() stmt {
	type branch struct {
		when expr
		body []stmt
	}
	var list []branch
	for end := "elif"; end != "endif" && p.err == nil; {
		b := branch{when: func(*state) any { return true }}
		if end == "elif" {
			b.when = p.expr()
		}
		p.done()
		b.body, end = p.block([]string{"elif", "else", "endif"})
		list = append(list, b)
	}
	return func(s *state) {
		for _, b := range list {
			if truth(b.when(s)) {
				s.run(b.body)
				return
			}
		}
	}
}

func (p *parser) loop() stmt {
	names := []string{p.name()}
	for p.accept(",") {
		names = append(names, p.name())
	}
	p.want("in")
	list := p.or()
	var when expr
	if p.accept("if") {
		when = p.or()
	}
	p.done()
	body, end := p.block([]string{"else", "endfor"})
	var none []stmt
	if end == "else" {
		none, _ = p.block([]string{"endfor"})
	}
	return func(s *state) { s.loop(names, list(s), when, body, none) }
}

func (p *parser) assignment() stmt {
	name, field := p.name(), ""
	if p.accept(".") {
		field = p.name()
	}
	if !p.accept("=") {
		body, _ := p.block([]string{"endset"})
		return func(s *state) {
			out := s.out
			s.out = new(strings.Builder)
			s.run(body)
			s.vars[name], s.out = s.out.String(), out
		}
	}
	e := p.expr()
	p.done()
	return func(s *state) {
		v := e(s)
		if field == "" {
			s.vars[name] = v
		} else if n, ok := s.get(name).(namespace); ok {
			n[field] = v
		} else {
			s.fail("%s is no namespace", name)
		}
	}
}

func (p *parser) expr() expr {
	if p.depth++; p.depth > maxDepth {
		p.fail("expressions in expressions, more than %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	e := p.or()
	if !p.accept("if") {
		return e
	}
	when, other := p.or(), func(*state) any { return undefined{} }
	if p.accept("else") {
		other = p.expr()
	}
	return func(s *state) any {
		if truth(when(s)) {
			return e(s)
		}
		return other(s)
	}
}

func (p *parser) or() expr {
	e := p.and()
	for p.accept("or") {
		a, b := e, p.and()
		e = func(s *state) any {
			if v := a(s); truth(v) {
				return v
			}
			return b(s)
		}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.accept("and") {
		a, b := e, p.not()
		e = func(s *state) any {
			if v := a(s); !truth(v) {
				return v
			}
			return b(s)
		}
	}
	return e
}

func (p *parser) not() expr {
	if p.accept("not") {
		if p.depth++; p.depth > maxDepth {
			p.fail("not, more than %d times", maxDepth)
		}
		defer func() { p.depth-- }()
		e := p.not()
		return func(s *state) any { return !truth(e(s)) }
	}
	e := p.binary(0)
	for {
		op := p.peek()
		switch {
		case slices.Contains([]string{"==", "!=", "<", ">", "<=", ">=", "in"}, op):
			p.at++
		case p.accept("not", "in"):
			op = "not in"
		default:
			return e
		}
		a, b := e, p.binary(0)
		e = func(s *state) any { return s.compare(op, a(s), b(s)) }
	}
}

// operators by precedence, loosest first.
var operators = [][]string{{"+", "-"}, {"~"}, {"*", "/", "//", "%"}}

func (p *parser) binary(level int) expr {
	if level == len(operators) {
		return p.unary()
	}
	e := p.binary(level + 1)
	for slices.Contains(operators[level], p.peek()) {
		op, a, b := p.take(), e, p.binary(level+1)
		e = func(s *state) any { return s.arithmetic(op, a(s), b(s)) }
	}
	return e
}

func (p *parser) unary() expr {
	if p.accept("-") {
		e := p.postfix(p.primary())
		return func(s *state) any { return s.arithmetic("-", 0, e(s)) }
	}
	return p.postfix(p.primary())
}

func (p *parser) primary() expr {
	tok := p.take()
	switch {
	case tok == "(":
		e := p.expr()
		if p.peek() == "," {
			p.fail("tuples are not supported")
		}
		p.want(")")
		return e
	case tok == "[":
		var list []expr
		for !p.accept("]") && p.err == nil {
			list = append(list, p.expr())
			if !p.accept(",") && p.peek() != "]" {
				p.want("]")
			}
		}
		return func(s *state) any { return values(s, list) }
	case tok == "{":
		var keys, list []expr
		for !p.accept("}") && p.err == nil {
			keys = append(keys, p.expr())
			p.want(":")
			list = append(list, p.expr())
			if !p.accept(",") && p.peek() != "}" {
				p.want("}")
			}
		}
		return func(s *state) any {
			d := &Dict{}
			for i, k := range keys {
				d.Set(s.text(k(s)), list[i](s))
			}
			return d
		}
	case tok == "":
		p.fail("an expression ends early")
	case tok[0] == '\'' || tok[0] == '"':
		v := unquote(tok)
		return func(*state) any { return v }
	case tok[0] >= '0' && tok[0] <= '9':
		if n, err := strconv.Atoi(tok); err == nil {
			return func(*state) any { return n }
		}
		f, _ := strconv.ParseFloat(tok, 64)
		return func(*state) any { return f }
	case tok == "true" || tok == "True":
		return func(*state) any { return true }
	case tok == "false" || tok == "False":
		return func(*state) any { return false }
	case tok == "none" || tok == "None":
		return func(*state) any { return nil }
	default:
		p.at--
		name := p.name()
		return func(s *state) any { return s.get(name) }
	}
	return nil
}

func values(s *state, list []expr) []any {
	out := make([]any, 0, len(list))
	for _, e := range list {
		out = append(out, e(s))
	}
	return out
}

// unquote resolves the escapes of Python.
func unquote(tok string) string {
	body := tok[1 : len(tok)-1]
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\'`, "'", `\"`, `"`).Replace(body)
}

// postfix parses attributes, items, slices, calls, filters and tests behind an expression.
func (p *parser) postfix(e expr) expr {
	for p.err == nil {
		a := e
		switch {
		case p.accept("."):
			name := p.name()
			if p.accept("(") {
				f, ok := methods[name]
				if !ok {
					p.fail("the method %s() is not supported", name)
				}
				args := p.arguments()
				e = func(s *state) any { return s.call(name, f, a(s), args) }
				continue
			}
			e = func(s *state) any { return s.item(a(s), name) }
		case p.accept("["):
			e = p.index(a)
		case p.accept("("):
			args := p.arguments()
			e = func(s *state) any {
				if f, ok := a(s).(function); ok {
					return s.call("function", f, nil, args)
				}
				return s.fail("a call of something that is no function")
			}
		case p.accept("|"):
			name := p.name()
			f, ok := filters[name]
			if !ok {
				p.fail("the filter %s is not supported", name)
			}
			var args []argument
			if p.accept("(") {
				args = p.arguments()
			}
			e = func(s *state) any { return s.call(name, f, a(s), args) }
		case p.accept("is"):
			not := p.accept("not")
			name := p.name()
			f, ok := tests[name]
			if !ok {
				p.fail("the test %s is not supported", name)
			}
			var args []argument
			if p.accept("(") {
				args = p.arguments()
			} else if name == "equalto" || name == "eq" {
				args = []argument{{value: p.postfix(p.primary())}}
			}
			e = func(s *state) any { return truth(s.call(name, f, a(s), args)) != not }
		default:
			return e
		}
	}
	return e
}

func (p *parser) index(a expr) expr {
	var parts [3]expr
	n := 0
	for !p.accept("]") && p.err == nil {
		if p.accept(":") {
			if n++; n > 2 {
				p.fail("a slice of more than three parts")
			}
			continue
		}
		parts[n] = p.expr()
	}
	if n == 0 {
		if parts[0] == nil {
			p.fail("[] without an index")
		}
		return func(s *state) any { return s.item(a(s), parts[0](s)) }
	}
	return func(s *state) any { return s.slice(a(s), parts) }
}

type argument struct {
	name  string
	value expr
}

func (p *parser) arguments() (list []argument) {
	for !p.accept(")") && p.err == nil {
		var arg argument
		if p.at+1 < len(p.toks) && p.toks[p.at+1] == "=" {
			arg.name = p.name()
			p.want("=")
		}
		arg.value = p.expr()
		list = append(list, arg)
		if !p.accept(",") && p.peek() != ")" {
			p.want(")")
		}
	}
	return list
}
