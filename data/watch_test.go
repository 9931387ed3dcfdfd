package data_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
)

// watch encodes a table and gives its surprises.
func watch(t *testing.T, content string, s *data.Schema, strict bool) ([]data.Surprise, error) {
	t.Helper()
	src, err := text.OpenBytes("new.csv", []byte(content), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Encoder(src.Columns(), false)
	if err != nil {
		t.Fatal(err)
	}
	w := data.Watch{Strict: strict}
	e.Watch(&w)
	r, err := src.Open(e.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b data.Block
	for {
		err := r.Read(&b, 2)
		if err == io.EOF {
			return w.Surprises(), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Encode(dense.New[float64](b.Rows, s.Width()), dense.Matrix[float64]{}, &b, r.Where); err != nil {
			return w.Surprises(), err
		}
	}
}

func TestWatch(t *testing.T) {
	var content strings.Builder
	content.WriteString("x,gaps,city,many,one,word,flag,y\n")
	for i := range 60 {
		gap := fmt.Sprint(i)
		if i%6 == 0 {
			gap = ""
		}
		fmt.Fprintf(&content, "%d,%s,%s,m%d,7,ja,%v,%d.5\n", i%11-5, gap, []string{"Rome", "Oslo"}[i%2], i%20,
			i%3 == 0, i)
	}
	s, _ := learn(t, content.String(), data.LearnOptions{Targets: []string{"y"}, MaxLevels: 8})
	same, err := watch(t, content.String(), s, true)
	for _, one := range same { // the table of the fit has none but the usual
		if !one.Usual {
			t.Errorf("%+v", one)
		}
	}
	if err != nil || len(same) != 2 {
		t.Errorf("%v, %v", same, err)
	}
	rows := []string{"0,3,Rome,m1,7,ja,true", "9,3,Rome,m1,7.0,ja,true", "11,,Rome,zz,8,ja,false", ",3,Bern,m1,7,nein,",
		"-5.5,3,,m1,,,true"}
	got, err := watch(t, "x,gaps,city,many,one,word,flag\n"+strings.Join(rows, "\n")+"\n", s, false)
	want := map[string]string{
		"x above":      `2 9 new.csv:3 5 false`,
		"x missing":    `1  new.csv:5  false`,
		"x below":      `1 -5.5 new.csv:6 -5 false`,
		"gaps missing": `1  new.csv:4  true`,
		"city unseen":  `1 Bern new.csv:5  false`,
		"city missing": `1  new.csv:6  false`,
		"many unseen":  `1 zz new.csv:4  true`,
		"one changed":  `1 8 new.csv:4 7 false`,
		"word changed": `1 nein new.csv:5 ja false`,
		"flag missing": `1  new.csv:5  false`,
	}
	if err != nil || len(got) != len(want) {
		t.Errorf("%d surprises, want %d; %v", len(got), len(want), err)
	}
	for _, g := range got {
		if content := fmt.Sprintf("%d %s %s %s %v", g.Rows, g.First, g.Where, g.Known,
			g.Usual); content != want[g.Column+" "+g.What] {
			t.Errorf("%s %s: %s, want %s", g.Column, g.What, content, want[g.Column+" "+g.What])
		}
	}
	for i, says := range []string{"", `new.csv:2: column "x" is 9, above 5`, `new.csv:2: column "x" is 11`,
		`column "x" is missing`, `column "x" is -5.5, below -5`} {
		_, err := watch(t, "x,gaps,city,many,one,word,flag\n"+rows[i]+"\n", s, true)
		if (err == nil) != (says == "") || err != nil && (!errors.Is(err, data.ErrSurprise) || !errors.Is(err,
			data.ErrInput) ||
			!strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %s", rows[i], err, says)
		}
	}
	for _, bad := range []string{
		`{"fields":[{"name":"a","kind":"numeric","scale":1,"range":[2,1]}]}`,
		`{"fields":[{"name":"a","kind":"categorical","levels":["x"],"range":[1,2]}]}`,
		`{"fields":[{"name":"a","kind":"numeric","scale":1,"other":true}]}`,
		`{"fields":[{"name":"a","kind":"numeric","scale":1}],"constants":{"b":"1"}}`,
	} {
		if err := new(data.Schema).UnmarshalJSON([]byte(bad)); !errors.Is(err, data.ErrSchema) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
