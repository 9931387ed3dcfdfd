package data_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
)

func TestReadMarks(t *testing.T) {
	src, err := text.OpenBytes("t.csv", []byte("w,g,d,x\n1,b,2026-01-02,5\n0,a,2026-01-01T12:00:00,6\n2.5,b,2025-12-31,7\n"),
		data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := data.MarkColumns{Weight: "w", Group: "g", Time: "d"}.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	want := &data.Marks{Weight: []float64{1, 0, 2.5}, Group: []uint32{0, 1, 0}, Groups: 2,
		Time: []float64{20455, 20454.5, 20453}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("%+v, want %+v", m, want)
	}
	if got := m.Keep([]int64{2, 1}); !reflect.DeepEqual(got,
		&data.Marks{Weight: []float64{2.5, 0}, Group: []uint32{0, 1},
			Groups: 2, Time: []float64{20453, 20454.5}}) {
		t.Errorf("%+v", got)
	}
	for dates, want := range map[string][]float64{
		"1/2/2026\n3/4/2026\n": {20455, 20516}, "1.2.2026\n3.4.2026\n": {20485, 20546}, "7\n-1e3\n": {7, -1000},
	} {
		src, err := text.OpenBytes("t.csv", []byte("d\n"+dates), data.Options{Header: new(true)})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := (data.MarkColumns{Time: "d"}).Read(src); err != nil || !reflect.DeepEqual(m.Time, want) {
			t.Errorf("%q: %+v, %v", dates, m, err)
		}
	}
}

// Errors name the line and the column.
func TestReadMarksRefuses(t *testing.T) {
	for content, want := range map[string]string{
		"w,g,d\n1,a,1\n-1,a,1\n":                         `t.csv:3: the weight is "-1", want a number that is not negative`,
		"w,g,d\n1,a,1\n,a,1\n":                           "t.csv:3: the weight is missing",
		"w,g,d\n1,a,1\nx,a,1\n":                          `t.csv:3: the weight is "x"`,
		"w,g,d\n0,a,1\n0,a,1\n":                          "t.csv: the weights of all rows sum to 0",
		"w,g,d\n1,a,1\n1,,1\n":                           "t.csv:3: the group is missing",
		"w,g,d\n1,a,1\n1,a,\n":                           "t.csv:3: the time is missing",
		"w,g,d\n1,a,2026-01-01\n1,a,2026-01-02\n1,a,7\n": `t.csv:4: "7" is no time that goes with those before`,
		"w,g\n1,a\n2,b\n":                                `t.csv: no column "d", named as time`,
	} {
		src, err := text.OpenBytes("t.csv", []byte(content), data.Options{Header: new(true)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = data.MarkColumns{Weight: "w", Group: "g", Time: "d"}.Read(src)
		var in *data.InputError
		if err == nil || !strings.HasPrefix(err.Error(), want) || !errors.As(err, &in) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
}
