//go:build unix

package sheet_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/internal/datatest"
)

// bomb is a text of a beginning, about so many times the same unit, and an end. Compressing it takes no more time than
// compressing the unit three times.
type bomb struct {
	begin, unit string
	times       int
	end         string
}

// deflated returns the compressed text. The compressor ends every unit at a byte, and from the second on the window
// before a unit is the same, so the bytes of one serve for all.
func (r bomb) deflated(t testing.TB) []byte {
	t.Helper()
	unit := strings.Repeat(r.unit, 1+(1<<15)/max(1, len(r.unit))) // longer than the window
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) []byte {
		from := b.Len()
		if _, err := w.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()[from:]
	}
	write(r.begin)
	if r.times > 0 {
		write(unit)
		piece := bytes.Clone(write(unit))
		for range r.times*len(r.unit)/len(unit) - 2 {
			b.Write(piece)
		}
	}
	write(r.end)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// hostileBook is a workbook of one sheet. Parts by name stand in for the usual ones.
func hostileBook(t testing.TB, parts map[string]bomb) []byte {
	t.Helper()
	all := map[string]bomb{
		"xl/workbook.xml":            {begin: `<workbook xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet r:id="r1"/></sheets></workbook>`},
		"xl/_rels/workbook.xml.rels": {begin: `<Relationships><Relationship Id="r1" Target="sheet.xml"/></Relationships>`},
		"xl/sheet.xml":               {begin: `<worksheet><sheetData><row><c><v>1</v></c></row></sheetData></worksheet>`},
	}
	for name, part := range parts {
		all[name] = part
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, part := range all {
		deflated := part.deflated(t)
		plain := part.begin + part.end
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, CompressedSize64: uint64(len(deflated)),
			UncompressedSize64: 1 << 40, CRC32: crc32.ChecksumIEEE([]byte(plain))}
		if part.times == 0 {
			h.UncompressedSize64 = uint64(len(plain))
		}
		w, err := z.CreateRaw(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(deflated); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A small workbook that expands to anything large ends in an error that names the bound, soon and in little memory.
func TestHostileWorkbooks(t *testing.T) {
	const (
		sheet  = `<worksheet><sheetData><row>`
		inline = sheet + `<c t="inlineStr"><is>`
		book   = "xl/workbook.xml"
		shared = "xl/sharedStrings.xml"
		styles = "xl/styles.xml"
		first  = "xl/sheet.xml"
	)
	long := `<sst><si><t>` + strings.Repeat("a", 1<<20-10) + `</t></si></sst>`
	r := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 2<<20)
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	noise := string(random)
	for name, c := range map[string]struct {
		parts map[string]bomb
		want  string
	}{
		"a cell of 1.2 GB":  {map[string]bomb{first: {inline + "<t>", "a", 1200 << 20, ""}}, "1048576 bytes"},
		"a value of 1.2 GB": {map[string]bomb{first: {sheet + "<c><v>", "1", 1200 << 20, ""}}, "1048576 bytes"},
		"a cell of many texts": {map[string]bomb{first: {inline, "<t>aaaaaaaaaaaaaaaa</t>", 1 << 20, ""}},
			"1048576 bytes"},
		"an attribute of 1.2 GB": {map[string]bomb{first: {sheet + `<c r="`, "A", 1200 << 20, ""}}, "1048576 bytes"},
		"a tag of 1.2 GB":        {map[string]bomb{first: {sheet + "<", "c", 1200 << 20, ""}}, "1048576 bytes"},
		"a comment of 1.2 GB":    {map[string]bomb{first: {sheet + "<!--", "a", 1200 << 20, ""}}, "1048576 bytes"},
		"a section of 1.2 GB": {map[string]bomb{first: {inline + "<t><![CDATA[", "a>", 600 << 20, ""}},
			"1048576 bytes"},
		"an instruction of 1.2 GB": {map[string]bomb{first: {"<?xml", ">", 1200 << 20, ""}}, "1048576 bytes"},
		"nested elements":          {map[string]bomb{first: {sheet, "<a>", 67_000_000, ""}}, "100 elements"},
		"nested in a cell":         {map[string]bomb{first: {inline, "<a>", 67_000_000, ""}}, "100 elements"},
		"ten million attributes":   {map[string]bomb{first: {sheet + "<c", ` a=""`, 10_000_000, ""}}, "1048576 bytes"},
		"2000 attributes":          {map[string]bomb{first: {sheet + "<c", ` a=""`, 20_000, "/>"}}, "256 attributes"},
		"400,000 runs":             {map[string]bomb{first: {inline, "<r><t>a</t></r>", 400_000, ""}}, "32768 runs"},
		"elements without meaning": {map[string]bomb{first: {sheet, "<a/>", 4_000_000, ""}}, "MiB"}, // of 16 MB
		"rows of nothing": {map[string]bomb{first: {`<worksheet>`, "<row/>", 100_000_000, ""}},
			"follows row 1048576"},
		"one text in all cells": {map[string]bomb{shared: {begin: long},
			first: {`<worksheet>`, `<row><c t="s"><v>0</v></c></row>`, 1_000_000, ""}}, "MiB"},
		"one text in a row": {map[string]bomb{shared: {begin: long},
			first: {sheet, `<c t="s"><v>0</v></c>`, 16_000, ""}}, "16777216 bytes"},
		"the widest rows": {map[string]bomb{first: {sheet + `<c r="XFD1"><v>1</v></c></row>`,
			`<row><c><v>1</v></c></row>`, 1_000_000, ""}}, "MiB"},
		"a shared text of 1.2 GB": {map[string]bomb{shared: {"<sst><si><t>", "a", 1200 << 20, ""}},
			"1048576 bytes"},
		"runs of a shared text": {map[string]bomb{shared: {"<sst><si>", "<r><t>a</t></r>", 400_000, ""}},
			"32768 runs"},
		"shared texts of nothing": {map[string]bomb{shared: {"<sst>", "<si/>", 20_000_000, ""}}, "MiB"},
		"shared texts of nothing in a large file": {map[string]bomb{"noise": {begin: noise},
			shared: {"<sst>", "<si/>", 18_000_000, ""}}, "192 MiB of texts"},
		"many shared texts": {map[string]bomb{shared: {"<sst>", "<si><t>abcdefgh</t></si>", 6_000_000, ""}},
			"MiB"},
		"styles": {map[string]bomb{styles: {"<s><cellXfs>", "<xf/>", 30_000_000, ""}},
			"65536 styles"},
		"formats": {map[string]bomb{styles: {"<s><numFmts>", `<numFmt numFmtId="9"/>`, 5_000_000,
			""}}, "MiB"},
		"a workbook of sheets": {map[string]bomb{book: {"<workbook><sheets>", `<sheet/>`, 20_000_000, ""}},
			"MiB"},
		"an attribute of the workbook": {map[string]bomb{book: {`<workbook a="`, `a`, 1200 << 20, ""}},
			"1048576 bytes"},
		"a document type": {map[string]bomb{book: {begin: `<!DOCTYPE a [<!ENTITY b "c">]><workbook/>`}},
			"document type"},
	} {
		t.Run(name, func(t *testing.T) {
			b := hostileBook(t, c.parts)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := processorTime(t)
			src, err := files.OpenBytes("t.xlsx", b, data.Options{})
			if err == nil {
				err = datatest.All(src)
			}
			took := processorTime(t) - begin
			runtime.ReadMemStats(&after)
			if memory := after.TotalAlloc - before.TotalAlloc; took > 2*time.Second || memory > 300_000_000 {
				t.Errorf("a file of %d bytes took %v and %d MB", len(b), took, memory/1e6)
			}
			if !errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// processorTime is the time that all threads of the process have computed: other programs do not lengthen it.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A large workbook of an ordinary kind is read: 100,000 rows of numbers and shared texts, as programs write them.
func TestLargeWorkbook(t *testing.T) {
	var sheet strings.Builder
	sheet.WriteString(`<?xml version="1.0" encoding="UTF-8" standalone="yes"?><x:worksheet xmlns:x="m"><x:sheetData>`)
	const rows = 100_000
	for i := 1; i <= rows; i++ {
		fmt.Fprintf(&sheet, `<x:row r="%d" spans="1:3"><x:c r="A%d"><x:v>%d</x:v></x:c><x:c r="B%d" t="s"><x:v>%d</x:v></x:c>`+
			`<x:c r="C%d" s="1"/></x:row>`, i, i, i, i, i%7, i)
	}
	sheet.WriteString(`</x:sheetData></x:worksheet>`)
	shared := "<sst>"
	for i := range 7 {
		shared += fmt.Sprintf("<si><t>x &amp;\r\n<![CDATA[<%d>]]></t><rPh><t>no</t></rPh><!-- > --></si>", i)
	}
	b := hostileBook(t, map[string]bomb{"xl/sheet.xml": {begin: sheet.String()},
		"xl/sharedStrings.xml": {begin: shared + "</sst>"}})
	src, err := files.OpenBytes("t.xlsx", b, data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, sum := 0, 0.0
	_, err = datatest.Each(src, []data.Kind{data.Number, data.Text}, 100, func(b *data.Block) {
		for i, v := range b.Cols[0].Num {
			n++
			sum += v
			if want := fmt.Sprintf("x & <%d>", n%7); string(b.Cols[1].Text[i]) != want {
				t.Fatalf("row %d: %q, want %s", n, b.Cols[1].Text[i], want)
			}
		}
	})
	if err != nil || n != rows || sum != rows*(rows+1)/2 {
		t.Errorf("%d rows of sum %g, %v", n, sum, err)
	}
}
