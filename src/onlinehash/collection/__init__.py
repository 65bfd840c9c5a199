"""Collections: durable items, searchable while their hash functions change."""

from onlinehash.collection.collection import Collection
from onlinehash.collection.insight import ClassBits, Codewords, EncoderRecord, History, ItemMap, QualityRecord
from onlinehash.collection.maintenance import CheckReport, check_collection
from onlinehash.collection.migration import Migration
from onlinehash.collection.transfer import export_codes, export_items, import_items
from onlinehash.collection.types import Item, ItemPage, Stats

__all__ = [
    "CheckReport",
    "ClassBits",
    "Codewords",
    "Collection",
    "EncoderRecord",
    "History",
    "Item",
    "ItemMap",
    "ItemPage",
    "Migration",
    "QualityRecord",
    "Stats",
    "check_collection",
    "export_codes",
    "export_items",
    "import_items",
]
