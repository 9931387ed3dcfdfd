package text

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/datatest"
)

func latin1(s string) []byte {
	var b []byte
	for _, r := range s {
		b = append(b, byte(r))
	}
	return b
}

func utf16Bytes(order binary.AppendByteOrder, s string) (b []byte) {
	for _, u := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, u)
	}
	return b
}

// One table in many encodings is one table, and it is known which it was.
func TestEncodings(t *testing.T) {
	csv := "städte,größe\nKöln,1\nMünchen,2\nÅrhus,3\n"
	json := `{"städte":"Köln","größe":1}` + "\n" + `{"städte":"München","größe":2}` + "\n" +
		`{"städte":"Århus","größe":3}`
	late := strings.Repeat("Bonn,0\n", 50_000) // behind the part that is examined before reading
	for _, c := range []struct {
		name  string
		bytes []byte
		o     data.Options
		is    string
		late  bool
	}{
		{"x.csv", []byte(csv), data.Options{}, "", false},
		{"x.csv", []byte("\ufeff" + csv), data.Options{}, "", false},
		{"x.csv", latin1(csv), data.Options{}, "windows-1252", false},
		{"x.csv", latin1(csv), data.Options{Encoding: "Latin1"}, "iso-8859-1", false},
		{"x.csv", latin1(csv), data.Options{Assume: "iso-8859-15"}, "iso-8859-15", false},
		{"x.csv", []byte(csv), data.Options{Assume: "iso-8859-15"}, "", false},
		{"x.csv", utf16Bytes(binary.LittleEndian, "\ufeff"+csv), data.Options{}, "utf-16le", false},
		{"x.csv", utf16Bytes(binary.BigEndian, "\ufeff"+csv), data.Options{}, "utf-16be", false},
		{"x.csv", utf16Bytes(binary.BigEndian, "\ufeff"+csv), data.Options{Encoding: "utf-16"}, "utf-16be", false},
		{"x.csv", utf16Bytes(binary.LittleEndian, csv), data.Options{}, "utf-16le", false},
		{"x", utf16Bytes(binary.LittleEndian, "\ufeff"+json), data.Options{}, "utf-16le", false},
		{"x.ndjson", latin1(json), data.Options{}, "windows-1252", false},
		{"x.csv", latin1("a,b\n" + late + "Köln,1\n"), data.Options{}, "windows-1252", true},
		{"x.csv", []byte("a,b\n" + late + "Köln,1\n"), data.Options{}, "", true},
	} {
		src, err := OpenBytes(c.name, c.bytes, c.o)
		if err != nil {
			t.Errorf("%s as %q: %v", c.name, c.is, err)
			continue
		}
		if c.late {
			_, rows, err := datatest.Table(src, nil, 1000)
			if got := rows[len(rows)-1]; err != nil || fmt.Sprint(got) != "[Köln 1]" || encodingOf(src) != c.is {
				t.Errorf("late: %q as %q, %v", got, encodingOf(src), err)
			}
			continue
		}
		columns, rows, err := datatest.Table(src, nil, 2)
		want := [][]string{{"Köln", "1"}, {"München", "2"}, {"Århus", "3"}}
		if err != nil || fmt.Sprint(columns) != "[städte größe]" || !reflect.DeepEqual(rows, want) ||
			encodingOf(src) != c.is {
			t.Errorf("%s as %q: %q %q as %q, %v", c.name, c.is, columns, rows, encodingOf(src), err)
		}
	}
	for _, bad := range []data.Options{{Encoding: "klingon"}, {Assume: "klingon"}} {
		_, err := OpenBytes("x.csv", []byte(csv), bad)
		if err == nil || !strings.Contains(err.Error(), "klingon") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A file is read in the same way however its bytes arrive.
func TestEncodingsInPieces(t *testing.T) {
	text := "a,b\n" + strings.Repeat("naïve café 🙂,1\n", 3)
	for _, b := range [][]byte{[]byte(text), utf16Bytes(binary.BigEndian, "\ufeff"+text),
		latin1(strings.ReplaceAll(text, "🙂", "ü"))} {
		want, err := OpenBytes("x.csv", b, data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, rows, err := datatest.Table(want, nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		src, err := OpenReader("x.csv", iotest.OneByteReader(bytes.NewReader(b)), data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, got, err := datatest.Table(src, nil, 10); err != nil || !reflect.DeepEqual(got, rows) {
			t.Errorf("%q, want %q; %v", got, rows, err)
		}
	}
}

// The learned schema keeps the encoding, and has the levels of the same table in UTF-8.
func TestLearnedEncoding(t *testing.T) {
	var b strings.Builder
	b.WriteString("stadt,y\n")
	for i := range 30 {
		fmt.Fprintf(&b, "%s,%d.5\n", []string{"Köln", "Genève", "Århus"}[i%3], i)
	}
	var levels []string
	for i, file := range [][]byte{[]byte(b.String()), latin1(b.String())} {
		path := filepath.Join(t.TempDir(), "x.csv")
		if err := os.WriteFile(path, file, 0o666); err != nil {
			t.Fatal(err)
		}
		src, err := Open(path, data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, sum, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			levels = s.Fields[0].Levels
			continue
		}
		if !reflect.DeepEqual(s.Fields[0].Levels, levels) || s.Encoding != "windows-1252" ||
			!strings.Contains(strings.Join(sum.Notes, " "), "read as windows-1252") {
			t.Errorf("%q, %q, %q", s.Fields[0].Levels, s.Encoding, sum.Notes)
		}
		var back data.Schema
		text := fmt.Sprintf(`{"fields":[{"name":"a","kind":"numeric","scale":1}],"encoding":%q}`, "klingon")
		if err := back.UnmarshalJSON([]byte(text)); !errors.Is(err, data.ErrSchema) {
			t.Errorf("an encoding that nobody knows: %v", err)
		}
	}
}

// FuzzEncoding: any bytes in any encoding are valid UTF-8 or an error about them.
func FuzzEncoding(f *testing.F) {
	f.Add([]byte("a,b\nK\xf6ln,1\n"), "")
	f.Add(utf16Bytes(binary.LittleEndian, "\ufeffa,b\nKöln,🙂\n"), "")
	f.Add([]byte("a\n\xd8\x00"), "utf-16be")
	f.Fuzz(func(t *testing.T, b []byte, encoding string) {
		src, err := OpenReader("x.csv", io.MultiReader(bytes.NewReader(b)),
			data.Options{Format: data.CSV, Encoding: encoding, MaxLine: 1 << 16})
		if err != nil {
			return
		}
		_, rows, err := datatest.Table(src, nil, 3)
		if err != nil && !errors.Is(err, data.ErrInput) {
			t.Fatal(err)
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.ToValidUTF8(cell, "") != cell {
					t.Fatalf("%q of %q as %q", cell, b, encoding)
				}
			}
		}
	})
}

func encodingOf(src data.Source) string {
	if e, ok := data.As[interface{ Encoding() string }](src); ok {
		return e.Encoding()
	}
	return ""
}
