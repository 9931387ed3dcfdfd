package files_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/internal/datatest"
)

// workbook is one with shared and inline texts, dates by a built-in and by an own format, a gap and an empty row.
func workbook(t testing.TB, rows string) []byte {
	return datatest.Zip(t,
		"xl/workbook.xml", `<workbook xmlns="m" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">
<sheets><sheet name="first" sheetId="4" r:id="rId7"/><sheet name="second" sheetId="1" r:id="rId1"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels", `<Relationships><Relationship Id="rId1" Target="worksheets/sheet1.xml"/>
<Relationship Id="rId7" Target="/xl/worksheets/sheet2.xml"/></Relationships>`,
		"xl/worksheets/sheet1.xml", `<worksheet><sheetData><row><c><v>1</v></c></row></sheetData></worksheet>`,
		"xl/worksheets/sheet2.xml", `<worksheet><sheetData>`+rows+`</sheetData></worksheet>`,
		"xl/styles.xml", `<styleSheet><numFmts><numFmt numFmtId="164" formatCode="dd/mm/yyyy"/>
<numFmt numFmtId="165" formatCode="0.0&quot; days&quot;"/></numFmts>
<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs></styleSheet>`,
		"xl/sharedStrings.xml", `<sst><si><t>price</t></si><si><r><t>d</t></r><r><t>ay</t></r></si><si><t>a "b"
c</t></si></sst>`)
}

const sheetRows = `<row r="2"><c r="A2" t="s"><v>0</v></c><c r="B2" t="s"><v>1</v></c><c r="C2" t="inlineStr"><is><t>note</t></is></c></row>
<row r="3"><c r="A3"><v>1.5</v></c><c r="B3" s="1"><v>45352</v></c><c r="C3" t="s"><v>2</v></c></row>
<row r="5"><c r="A5" s="3"><v>2</v></c><c r="B5" s="2"><v>45352.5</v></c></row>
<row r="6"><c r="B6" t="e"><v>#N/A</v></c><c r="C6" t="b"><v>1</v></c></row>`

// bzip2 of "a,b\n1,x\n2,y\n"; the standard library does not write it.
const bzipped = "QlpoOTFBWSZTWbzHKEUAAARZgAAQAAQwADAAAGAgADEMCCNBmo4EIheLuSKcKEheY5QigA=="

// Compressed files, archives, workbooks and arrays of objects give the rows of the text inside, told by their contents.
func TestWrappedFormats(t *testing.T) {
	const text = "a,b\n1,x\n2,y\n"
	var gz, zst bytes.Buffer
	w := gzip.NewWriter(&gz)
	w.Write([]byte(text))
	w.Close()
	e, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	e.Write([]byte(text))
	e.Close()
	bz, err := base64.StdEncoding.DecodeString(bzipped)
	if err != nil {
		t.Fatal(err)
	}
	array := "[\n  {\"a\": 1,\n   \"b\": \"x]},{\\\"\"},\n  {\"a\": 2, \"b\": \"y\"}\n]\n"
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"t.csv.gz", gz.Bytes(), "a b|1 x|2 y"},
		{"t.csv.zst", zst.Bytes(), "a b|1 x|2 y"},
		{"t.csv.bz2", bz, "a b|1 x|2 y"},
		{"t", zst.Bytes(), "a b|1 x|2 y"},
		{"t.zip", datatest.Zip(t, "__MACOSX/._t.csv", "\x00", "dir/", "", "dir/t.csv", text), "a b|1 x|2 y"},
		{"t.zip", datatest.Zip(t, "t.csv.gz", gz.String()), "a b|1 x|2 y"},
		{"t.zip", datatest.Zip(t, "t.json", array), `a b|1 x]},{"|2 y`},
		{"t.json", []byte(array), `a b|1 x]},{"|2 y`},
		{"t.ndjson", []byte("\xef\xbb\xbf[{\"a\":1},{\"a\":null}]"), "a|1|∅"},
		{"t.xlsx", workbook(t, sheetRows), "price day note|1.5 2024-03-01 a \"b\" c|2 2024-03-01T12:00:00 ∅|∅ ∅ true"},
	} {
		check := func(how string, src data.Source, err error) {
			if err == nil {
				var names []string
				var rows [][]string
				names, rows, err = datatest.Table(src, nil, 1)
				got := strings.Join(names, " ")
				for _, r := range rows {
					got += "|" + strings.Join(r, " ")
				}
				if got != c.want {
					t.Errorf("%s %s: %s, want %s", c.name, how, got, c.want)
				}
			}
			if err != nil {
				t.Errorf("%s %s: %v", c.name, how, err)
			}
		}
		src, err := files.OpenBytes(c.name, c.b, data.Options{})
		check("bytes", src, err)
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, c.b, 0o600); err != nil {
			t.Fatal(err)
		}
		src, err = files.Open([]string{path}, data.Options{})
		check("file", src, err)
		if !bytes.HasPrefix(c.b, []byte("PK")) {
			src, err = files.OpenReader(c.name, bytes.NewReader(c.b), data.Options{})
			check("stream", src, err)
		}
	}
	// Errors name the line of the object, and the row of the sheet.
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"t.json", []byte("[{\"a\":1,\n\"b\":2},\n{\"a\":1,\n\"b\":x}]"), "t.json:3:"},
		{"t.json", []byte(`[{"a":1}{"a":2}]`), "want a comma or ]"},
		{"t.json", []byte(`[{"a":1},{"a":2}`), "ends early"},
		{"t.json", []byte(`[{"a":1},{"a":2}] x`), "nothing behind the array"},
		{"t.json", []byte(`[[1,2],[3,4]]`), "array of arrays"},
		{"t.zip", datatest.Zip(t, "a.csv", text, "b.csv", text), `2 files, such as "a.csv" and "b.csv"`},
		{"t.zip", datatest.Zip(t, "a.zip", string(datatest.Zip(t, "a.csv", text))), "archive in an archive"},
		{"t.xlsx", workbook(t, `<row r="3"><c t="s"><v>9</v></c></row>`), "refers to text"},
		{"t.xlsx", workbook(t, `<row r="3"/><row r="2"/>`), "row 2 of the sheet follows row 3"},
		{"t.xlsx", workbook(t, `<row><c r="B1"/><c r="A1"/></row>`), "out of order"},
		{"t.xlsx", workbook(t, `<row><c r="ZZZ1"><v>1</v></c></row>`), "out of order"},
		{"t.xlsx", workbook(t, `<row><c>`), "damaged or cut file"},
		{"t.xlsx", datatest.Zip(t, "xl/workbook.xml", "<workbook/>"), "xl/_rels/workbook.xml.rels is missing"},
		{"t.csv.zst", zst.Bytes()[:zst.Len()-3], "damaged or cut file"},
		{"t.csv.bz2", bz[:len(bz)-3], "damaged or cut file"},
		{"t.feather", []byte("ARROW1\x00\x00"), "Parquet"},
		{"t.xls", []byte("\xd0\xcf\x11\xe0\xa1\xb1"), ".xlsx or CSV"},
	} {
		src, err := files.OpenBytes(c.name, c.b, data.Options{})
		if err == nil {
			_, _, err = datatest.Table(src, nil, 10)
		}
		if !errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.60q: %v, want %s", c.name, c.b, err, c.want)
		}
	}
}

// FuzzArchive: a sheet, or a JSON array, of any text is a table or an error, twice the same.
func FuzzArchive(f *testing.F) {
	f.Add(sheetRows, false)
	f.Add(`<row><c r="A1"><v>1</v></c></row><row r="9"><c t="inlineStr"><is><r><t>x</t></r></is></c></row>`, false)
	f.Add("[{\"a\":1,\"b\":\"}\\\\\"},\n{\"a\":[1]}]", true)
	f.Fuzz(func(t *testing.T, text string, array bool) {
		name, b := "t.json", []byte(text)
		if !array {
			name, b = "t.xlsx", workbook(t, text)
		}
		read := func() string {
			src, err := files.OpenBytes(name, b, data.Options{MaxColumns: 100})
			if err != nil {
				return err.Error()
			}
			_, rows, err := datatest.Table(src, nil, 7)
			return fmt.Sprint(rows, err)
		}
		if first, second := read(), read(); first != second {
			t.Fatalf("%s\n%s", first, second)
		}
	})
}
