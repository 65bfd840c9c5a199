"""Collections: durable items, searchable while their hash functions change."""

from onlinehash.collection.check import CheckReport, check_collection
from onlinehash.collection.collection import Collection
from onlinehash.collection.exports import export_codes
from onlinehash.collection.history import EncoderRecord, History, QualityRecord
from onlinehash.collection.insight import ClassBits, Codewords, ItemMap
from onlinehash.collection.migration import Migration
from onlinehash.collection.refresh import Every, Never, WhenDrifted, WhenIdle, WhenInformative
from onlinehash.collection.transfer import export_items, import_documents, import_items
from onlinehash.collection.types import Item, ItemPage, Stats

__all__ = [
    "CheckReport",
    "ClassBits",
    "Codewords",
    "Collection",
    "EncoderRecord",
    "Every",
    "History",
    "Item",
    "ItemMap",
    "ItemPage",
    "Migration",
    "Never",
    "QualityRecord",
    "Stats",
    "WhenDrifted",
    "WhenIdle",
    "WhenInformative",
    "check_collection",
    "export_codes",
    "export_items",
    "import_documents",
    "import_items",
]
