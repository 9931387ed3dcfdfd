package sheet_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/sheet"
)

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// The first sheet of a workbook is a table. Empty rows are skipped.
func ExampleOpen() {
	var book bytes.Buffer
	z := zip.NewWriter(&book)
	for name, content := range map[string]string{
		"xl/workbook.xml": `<workbook xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships">
			<sheets><sheet name="plants" r:id="first"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": `<Relationships><Relationship Id="first" Target="sheet.xml"/></Relationships>`,
		"xl/sheet.xml": `<worksheet><sheetData>
			<row><c t="inlineStr"><is><t>height</t></is></c><c t="inlineStr"><is><t>colour</t></is></c></row>
			<row><c><v>24.5</v></c><c t="inlineStr"><is><t>red</t></is></c></row></sheetData></worksheet>`,
	} {
		w, err := z.Create(name)
		if err != nil {
			panic(err)
		}
		w.Write([]byte(content))
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	open := func() (io.ReadCloser, error) { return memory{bytes.NewReader(book.Bytes())}, nil }
	src, err := sheet.Open("plants.xlsx", int64(book.Len()), open, data.Options{})
	if err != nil {
		panic(err)
	}
	r, err := src.Open([]data.Kind{data.Number, data.Text})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	var b data.Block
	if err := r.Read(&b, 10); err != nil {
		panic(err)
	}
	fmt.Printf("%v: %v %s\n", r.Columns(), b.Cols[0].Num[0], b.Cols[1].Text[0])
	// Output: [height colour]: 24.5 red
}
