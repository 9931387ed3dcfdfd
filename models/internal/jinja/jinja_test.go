package jinja

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func now() time.Time { return time.Date(2026, 7, 4, 0, 0, 0, 0, time.UTC) }

// Conversations are rendered as by transformers (peers/chat.py), and refused where it fails.
func TestEqualsTransformers(t *testing.T) {
	path := "testdata/chats.json"
	if other := os.Getenv("RANDFEAT_CHATS"); other != "" {
		path = other
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ref struct {
		Templates map[string]string
		Chats     []struct {
			Name     string
			Messages []map[string]string
			Prompt   bool
			Text     *string
		}
	}
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	for _, c := range ref.Chats {
		p, err := Parse(ref.Templates[c.Name])
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		list := []any{}
		for _, m := range c.Messages {
			d := &Dict{}
			for k, v := range m {
				d.Set(k, v)
			}
			list = append(list, d)
		}
		got, err := p.Render(map[string]any{"messages": list, "add_generation_prompt": c.Prompt, "bos_token": "<bos>",
			"eos_token": "<eos>", "tools": nil, "documents": nil}, now)
		if c.Text == nil {
			if err == nil {
				t.Errorf("%s, %v: %q, want an error", c.Name, c.Messages, got)
			}
		} else if err != nil || got != *c.Text {
			t.Errorf("%s, %v:\n%q\nwant\n%q (%v)", c.Name, c.Messages, got, *c.Text, err)
		}
	}
}

// refuses tells whether err is not what is wanted; "" wants nothing.
func refuses(err error, want string) bool {
	return want != "" && (!errors.Is(err, ErrTemplate) || !strings.Contains(err.Error(), want))
}

// What is not known is refused by its name, before anything is rendered.
func TestRefused(t *testing.T) {
	for template, want := range map[string]string{
		"{% macro x() %}{% endmacro %}":    "{% macro %} is not supported",
		"{% include 'x' %}":                "{% include %} is not supported",
		"{{ messages | groupby('role') }}": "the filter groupby is not supported",
		"{{ x is divisibleby 3 }}":         "the test divisibleby is not supported",
		"{{ x.format(3) }}":                "the method format() is not supported",
		"{% if x %}":                       "no endif",
		"{% endif %}":                      "{% endif %} is not supported",
		"{{ 1 + }}":                        "an expression ends early",
		"{{ (1, 2) }}":                     "tuples are not supported",
		"{{ § }}":                          "is not an expression",
		"{{ " + strings.Repeat("(", 1000):  "",
		"{{ " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000) + " }}": "more than 100 deep",
		"{{ " + strings.Repeat("not ", 1000) + "1 }}":                               "more than 100 times",
	} {
		if _, err := Parse(template); refuses(err, want) {
			t.Errorf("%.40s: %v, want %q", template, err, want)
		}
	}
	for template, want := range map[string]string{
		"{{ raise_exception('no!') }}": "refuses the conversation: no!",
		"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}":            "does not end",
		"{% set x = 'aaaaaaaa' %}{% for i in range(99) %}{% set x = x + x %}{% endfor %}":             "",
		"{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}": "does not end",
		"{{ missing.field }}":      "of something undefined",
		"{{ strftime_now('%j') }}": "is not supported",
		"{{ 1.5 }}":                "is printed",
	} {
		p, err := Parse(template)
		if err != nil {
			t.Fatalf("%s: %v", template, err)
		}
		start := time.Now()
		if _, err := p.Render(nil, now); refuses(err, want) {
			t.Errorf("%.40s: %v, want %q", template, err, want)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%.40s took %v", template, d)
		}
	}
}

// FuzzTemplate: any template ends, with a text or an error.
func FuzzTemplate(f *testing.F) {
	f.Add("{% for m in messages %}{{ m.content | trim }}{% endfor %}")
	f.Add("{%- set x = [1, 'a'][::-1] -%}{{ x | join(',') if x is defined else none }}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		m := &Dict{}
		m.Set("role", "user")
		m.Set("content", "hi")
		_, _ = p.Render(map[string]any{"messages": []any{m}}, now)
	})
}
