"""Columns that have one text in all rows of a file, put behind those that Spark has written.

Parquet's writer in Java takes every value by itself: four such columns cost a fifth of the write. Here a file gets them
in some milliseconds: pyarrow writes them, and Java puts their pages behind the others and joins both footers.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.spark.batch_offsets import ROW_METADATA
from app.spark.session import compiled

_CLASS: Final = "datalake.ConstantColumns"
_SOURCE: Final = """
package datalake;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import org.apache.parquet.format.*;

public class ConstantColumns {
    private static final int ENDING = 8; // of a file: the footer's length, and a magic number

    /** Appends the columns of a file, which has as many rows in each row group. */
    public void append(String path, byte[] others) throws IOException {
        RandomAccessFile file = new RandomAccessFile(path, "rw");
        try {
            file.seek(file.length() - ENDING);
            byte[] footer = new byte[Integer.reverseBytes(file.readInt())];
            long start = file.length() - ENDING - footer.length;
            file.seek(start);
            file.readFully(footer);
            file.seek(start);
            file.write(joined(footer, start, ByteBuffer.wrap(others)));
        } finally {
            file.close();
        }
    }

    private static byte[] joined(byte[] footer, long start, ByteBuffer others) throws IOException {
        int length = Integer.reverseBytes(others.getInt(others.capacity() - ENDING));
        int end = others.capacity() - ENDING - length;
        FileMetaData all = Util.readFileMetaData(new ByteArrayInputStream(footer));
        FileMetaData more = Util.readFileMetaData(new ByteArrayInputStream(others.array(), end, length));
        ByteArrayOutputStream joined = new ByteArrayOutputStream();
        joined.write(others.array(), 0, end);
        SchemaElement root = (SchemaElement) all.getSchema().get(0);
        root.setNum_children(root.getNum_children() + more.getSchema().size() - 1);
        all.getSchema().addAll(more.getSchema().subList(1, more.getSchema().size()));
        all.getColumn_orders().addAll(more.getColumn_orders());
        all.setKey_value_metadata(more.getKey_value_metadata());
        for (int index = 0; index < all.getRow_groups().size(); index++) {
            RowGroup group = (RowGroup) all.getRow_groups().get(index);
            RowGroup added = (RowGroup) more.getRow_groups().get(index);
            if (added.getNum_rows() != group.getNum_rows()) {
                throw new IOException("a row group has " + added.getNum_rows() + " rows of constant columns");
            }
            for (Object column : added.getColumns()) {
                move((ColumnChunk) column, start, others, joined);
            }
            group.getColumns().addAll(added.getColumns());
            group.setTotal_byte_size(group.getTotal_byte_size() + added.getTotal_byte_size());
            group.setTotal_compressed_size(group.getTotal_compressed_size() + added.getTotal_compressed_size());
        }
        int footerStart = joined.size();
        Util.writeFileMetaData(all, joined);
        int size = joined.size() - footerStart;
        joined.write(ByteBuffer.allocate(4).putInt(Integer.reverseBytes(size)).array());
        joined.write(others.array(), 0, 4); // the magic number, with which it begins too
        return joined.toByteArray();
    }

    private static void move(ColumnChunk column, long start, ByteBuffer others, ByteArrayOutputStream joined)
        throws IOException {
        ColumnMetaData pages = column.getMeta_data();
        pages.setDictionary_page_offset(pages.getDictionary_page_offset() + start);
        pages.setData_page_offset(pages.getData_page_offset() + start);
        column.setColumn_index_offset(column.getColumn_index_offset() + start);
        OffsetIndex index = Util.readOffsetIndex(new ByteArrayInputStream(
            others.array(), (int) column.getOffset_index_offset(), column.getOffset_index_length()));
        for (Object each : index.getPage_locations()) {
            PageLocation page = (PageLocation) each;
            page.setOffset(page.getOffset() + start);
        }
        column.setOffset_index_offset(start + joined.size());
        Util.writeOffsetIndex(index, joined);
        column.setOffset_index_length((int) (start + joined.size() - column.getOffset_index_offset()));
    }
}
"""
_TYPE: Final = pa.dictionary(pa.int32(), pa.string())  # in the file it is text


class ConstantColumns:
    """Appends such columns to files; for the thread that calls Spark."""

    def __init__(self, session: Any) -> None:
        self._java = compiled(session, _SOURCE).loadClass(_CLASS).newInstance()

    def append(self, path: Path, texts: Mapping[str, str | None]) -> None:
        """Appends a column of each name to a file of Spark, in all its row groups."""
        written = pq.read_metadata(path)
        schema = pa.schema(dict.fromkeys(texts, _TYPE).items())
        file = pa.BufferOutputStream()
        with pq.ParquetWriter(file, schema, compression="none", store_schema=False, write_page_index=True) as writer:
            for index in range(written.num_row_groups):
                rows = written.row_group(index).num_rows
                columns = [_repeated(text, rows) for text in texts.values()]
                writer.write_table(pa.table(columns, schema), row_group_size=rows)
            spark = json.loads(written.metadata[ROW_METADATA])  # its own schema
            spark["fields"] += [{"name": name, "type": "string", "nullable": True, "metadata": {}} for name in texts]
            text = json.dumps(spark, separators=(",", ":"), ensure_ascii=False)
            writer.add_key_value_metadata({**written.metadata, ROW_METADATA: text.encode()})
        self._java.append(str(path), file.getvalue().to_pybytes())


def _repeated(text: str | None, rows: int) -> pa.Array:
    indices = pa.nulls(rows, pa.int32()) if text is None else pa.repeat(pa.scalar(0, pa.int32()), rows)
    return pa.DictionaryArray.from_arrays(indices, pa.array([] if text is None else [text], pa.string()))
