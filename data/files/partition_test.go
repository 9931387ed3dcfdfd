package files_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/internal/localfile"
)

// tree makes files in folders.
func tree(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Folders named column=value are columns, by folder, by pattern and by name of a file, and for every unit alone. What
// Spark leaves beside the files is not read.
func TestPartitionedFolders(t *testing.T) {
	dir := tree(t, map[string]string{
		"_SUCCESS": "", ".hidden.csv": "x", "_temporary/0/date=2/part-9.csv": "q\n1\n", "old/part-0.csv": "z\n1\n",
		"date=2024-01-01/hour=7/part-0.csv":                          "a,b\n1,x\n",
		"date=2024-01-01/hour=7/.part-0.csv.crc":                     "crc",
		"date=2024-01-02/hour=__HIVE_DEFAULT_PARTITION__/part-0.csv": "b,a\ny,2\n",
		"date=10%3A30/hour=8/part-0.csv":                             "a,b\n3,z\n",
	})
	want := []string{`0/0/0: "3","z","10:30","8",`, `1/0/0: "1","x","2024-01-01","7",`,
		`2/0/0: "2","y","2024-01-02","",`}
	for _, arg := range []string{dir, filepath.Join(dir, "date=*"), filepath.Join(dir, "*", "*", "part-*.csv")} {
		if strings.HasSuffix(arg, "part-*.csv") {
			if err := os.RemoveAll(filepath.Join(dir, "_temporary")); err != nil {
				t.Fatal(err)
			}
		}
		table, err := open(t, data.Options{}, arg)
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Columns(); !slices.Equal(got, []string{"a", "b", "date", "hour"}) {
			t.Errorf("%s: columns %q", arg, got)
		}
		if got := rows(t, table, true); !slices.Equal(got, want) {
			t.Errorf("%s: %q", arg, got)
		}
		again, err := table.Manifest().Open()
		if err != nil {
			t.Fatal(err)
		}
		u, err := again.Unit(1)
		if err != nil {
			t.Fatal(err)
		}
		if got := rows(t, u, true); !slices.Equal(got, want[1:2]) {
			t.Errorf("%s: unit 1 %q", arg, got)
		}
		notes := strings.Join(table.Notes(), "")
		if !strings.Contains(notes, "date, hour come from the names of the folders") {
			t.Errorf("notes %q", notes)
		}
	}
	// Numbers are numbers, missing ones NaN; a text is refused with its file.
	table, err := open(t, data.Options{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := table.Open([]data.Kind{data.Skip, data.Text, data.Skip, data.Number})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b data.Block
	var hours []float64
	for r.Read(&b, 10) == nil {
		hours = append(hours, b.Cols[3].Num...)
		if b.Cols[2].Text != nil || b.Cols[2].Num != nil {
			t.Error("a column that was to be skipped was read")
		}
	}
	if len(hours) != 3 || hours[0] != 8 || hours[1] != 7 || hours[2] == hours[2] {
		t.Errorf("hours %v", hours)
	}
	if r, err = table.Open([]data.Kind{data.Skip, data.Text, data.Number, data.Skip}); err != nil {
		t.Fatal(err)
	}
	if err := r.Read(&b, 10); err == nil || !strings.Contains(err.Error(), "hour=8") ||
		!strings.Contains(err.Error(), `"10:30" by its folder`) {
		t.Errorf("a text as a number: %v", err)
	}
	one, err := open(t, data.Options{}, filepath.Join(dir, "date=2024-01-01", "hour=7", "part-0.csv"))
	if err != nil || !slices.Equal(rows(t, one, false), []string{`"1","x","2024-01-01","7",`}) {
		t.Errorf("one file: %v", err)
	}
}

// A column that the files have stays theirs; folders that do not agree are named.
func TestPartitionsAndColumns(t *testing.T) {
	own := tree(t, map[string]string{"a=9/part.csv": "a,b\n1,2\n", "a=8/part.csv": "a,b\n3,4\n"})
	table, err := open(t, data.Options{}, own)
	if err != nil || !slices.Equal(rows(t, table, false), []string{`"3","4",`, `"1","2",`}) ||
		len(table.Notes()) > 0 {
		t.Errorf("%v", err)
	}
	_, err = open(t, data.Options{}, tree(t, map[string]string{"k=1/part.csv": "b\n2\n", "part.csv": "b\n2\n"}))
	if err == nil || !strings.Contains(err.Error(), "its folders give the columns") {
		t.Errorf("files in and outside of folders: %v", err)
	}
	_, err = open(t, data.Options{}, tree(t, map[string]string{"k=1/k=2/part.csv": "b\n2\n"}))
	if err == nil || !strings.Contains(err.Error(), `two of its folders give the column "k"`) {
		t.Errorf("a column twice: %v", err)
	}
}

// Spark writes Parquet files without rows, often the first; they are read as none. A table without any row is refused
// by who needs rows.
func TestEmptyParquetParts(t *testing.T) {
	dir := t.TempDir()
	names := []string{"a", "b"}
	empty := func(i string) {
		writeParquet(t, filepath.Join(dir, "part-"+i+".snappy.parquet"), names, []float64{}, []string{})
	}
	empty("0")
	writeParquet(t, filepath.Join(dir, "part-1.snappy.parquet"), names, []float64{1, 2}, []string{"x", "y"})
	empty("2")
	for _, name := range []string{"_SUCCESS", ".part-1.snappy.parquet.crc", "_metadata"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, arg := range []string{dir, filepath.Join(dir, "*")} {
		table, err := open(t, data.Options{}, arg)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{`1/0/0: "1","x",`, `1/0/1: "2","y",`}
		if got := rows(t, table, true); !slices.Equal(got, want) {
			t.Errorf("%s: %q", arg, got)
		}
		var got []string
		for i := range table.Units() {
			u, err := table.Unit(i)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rows(t, u, true)...)
		}
		if !slices.Equal(got, want) || len(table.Units()) != 3 {
			t.Errorf("%s: by units %q", arg, got)
		}
		if _, sum, err := data.Learn(table, data.LearnOptions{}); err != nil || sum.Rows != 2 {
			t.Errorf("%+v, %v", sum, err)
		}
	}
	os.Remove(filepath.Join(dir, "part-1.snappy.parquet"))
	table, err := open(t, data.Options{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := data.Learn(table, data.LearnOptions{}); err == nil {
		t.Error("a table without rows was learned")
	}
}

// For a path whose scheme has no store, the error is one sentence with the remedy.
func TestPathsOfStores(t *testing.T) {
	for _, arg := range []string{"s3://bucket/part-*.csv", "gs://bucket/folder/"} {
		_, err := files.Expand(arg)
		if err == nil || !strings.Contains(err.Error(), arg+": this program reads and writes local files only: use rfbeam") {
			t.Errorf("%v", err)
		}
	}
	if _, err := localfile.Create("s3://bucket/model.rf"); err == nil || !strings.Contains(err.Error(), "rfbeam") {
		t.Errorf("%v", err)
	}
	if _, err := text.Open("https://example.org/x.csv", data.Options{}); err == nil || !strings.Contains(err.Error(),
		"not https://: copy the files to a folder") {
		t.Errorf("%v", err)
	}
	if s := localfile.Scheme("a/b://c"); s != "" {
		t.Errorf("scheme %q", s)
	}
}
