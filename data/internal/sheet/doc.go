// Package sheet reads the first sheet of a workbook of the format .xlsx (ECMA-376, Office Open XML).
//
// xlsx.go converts the sheet to delimited text while it is read, which package data/text parses. xml.go is a pull
// parser of bounded memory: a small hostile workbook that expands to anything large is an error.
package sheet
