//! The structs of Parquet's metadata, as far as `parquet` reads them: the ids and types of their fields. Fields that `parquet` skips are
//! left out.

use super::thrift::Layout::{Binary, Bool, Byte, Double, List, Number, Struct};
use super::thrift::{Fields, Layout};

/// `FileMetaData.schema`, a list of [`NODE`].
pub(super) const SCHEMA_FIELD: i64 = 2;

/// `FileMetaData`, except for the schema.
pub(super) const FILE_METADATA: Fields = &[
    (1, Number),
    (3, Number),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(&[(1, Binary), (2, Binary)]))),
    (6, Binary),
    // Column orders, which statistics refer to.
    (7, List(&Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))),
];

const ROW_GROUP: Fields = &[
    (1, List(&Struct(COLUMN_CHUNK))),
    (2, Number),
    (3, Number),
    // Sorting columns.
    (4, List(&Struct(&[(1, Number), (2, Bool), (3, Bool)]))),
    (5, Number),
    (7, Number),
];

const COLUMN_CHUNK: Fields =
    &[(1, Binary), (2, Number), (3, Struct(COLUMN_METADATA)), (4, Number), (5, Number), (6, Number), (7, Number)];

const COLUMN_METADATA: Fields = &[
    (1, Number),
    (2, List(&Number)),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Number),
    (9, Number),
    (10, Number),
    (11, Number),
    (12, Struct(STATISTICS)),
    // Statistics of page encodings.
    (13, List(&Struct(&[(1, Number), (2, Number), (3, Number)]))),
    (14, Number),
    (15, Number),
    // Size statistics.
    (16, Struct(&[(1, Number), (2, List(&Number)), (3, List(&Number))])),
    // Geospatial statistics, the first of them a bounding box.
    (17, Struct(&[(1, Struct(BOX)), (2, List(&Number))])),
];

const STATISTICS: Fields =
    &[(1, Binary), (2, Binary), (3, Number), (4, Number), (5, Binary), (6, Binary), (7, Bool), (8, Bool), (9, Number)];

const BOX: Fields =
    &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)];

/// `SchemaElement.num_children`.
pub(super) const CHILDREN_FIELD: i64 = 5;

/// `SchemaElement`, whose field 10 is the union `LogicalType`.
pub(super) const NODE: Fields = &[
    (1, Number),
    (2, Number),
    (3, Number),
    (4, Binary),
    (CHILDREN_FIELD, Number),
    (6, Number),
    (7, Number),
    (8, Number),
    (9, Number),
    (10, Struct(LOGICAL_TYPE)),
];

const EMPTY: Layout = Struct(&[]);
const TIME: Layout = Struct(&[(1, Bool), (2, Struct(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))]);

const LOGICAL_TYPE: Fields = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Struct(&[(1, Number), (2, Number)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Struct(&[(1, Byte), (2, Bool)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Binary)])),
    (18, Struct(&[(1, Binary), (2, Number)])),
    (19, EMPTY),
];

/// `PageHeader`. Statistics of pages are skipped.
pub(super) const PAGE_HEADER: Fields = &[
    (1, Number),
    (2, Number),
    (3, Number),
    (4, Number),
    // Headers of data pages, index pages, dictionary pages and data pages of version 2.
    (5, Struct(&[(1, Number), (2, Number), (3, Number), (4, Number)])),
    (6, Struct(&[])),
    (7, Struct(&[(1, Number), (2, Number), (3, Bool)])),
    (8, Struct(&[(1, Number), (2, Number), (3, Number), (4, Number), (5, Number), (6, Number), (7, Bool)])),
];
